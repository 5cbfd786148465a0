use crate::bindings::imports::informant::plugin::{log::Level, store::*, types::HostError};
fn no() -> ! {
    panic!("no")
}
pub(crate) fn log(_: Level, _: &str) {
    no()
}
pub(crate) fn source(_: u32) -> Result<SourceInfo, HostError> {
    no()
}
pub(crate) fn sources(_: &str) -> Result<Vec<u32>, HostError> {
    no()
}
pub(crate) fn version(_: u32) -> Result<SourceVersion, HostError> {
    no()
}
pub(crate) fn get(_: u32, _: &str, _: &str, _: &[String]) -> Result<Vec<u8>, HostError> {
    no()
}
pub(crate) fn list(_: &str, _: &Query) -> Result<Page, HostError> {
    no()
}
pub(crate) fn by_index(_: &str, _: &str, _: &str, _: &Query) -> Result<Page, HostError> {
    no()
}
pub(crate) fn index_keys(_: &str, _: &str, _: &str) -> Result<Vec<ObjectKey>, HostError> {
    no()
}
pub(crate) fn index_values(_: &str, _: &str, _: &str, _: u32) -> Result<Vec<String>, HostError> {
    no()
}
