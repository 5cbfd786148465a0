//! `listen`: the address and port of a server.

use std::net::SocketAddr;

use crate::source::Located;
use crate::table::Table;

/// Reads `listen`; reports a text that is no address.
pub(crate) fn read(table: &Table<'_>, help: &str) -> Option<Located<SocketAddr>> {
    let text = table.string("listen")?;
    let Ok(value) = text.value.parse::<SocketAddr>() else {
        let message = format!("`listen` = \"{}\" is not an address and a port", text.value);
        table.refuse(text.position, message, help);
        return None;
    };
    Some(Located {
        value,
        position: text.position,
    })
}
