//! What can still be read of an object that cannot be kept: broken, or longer than the limit.

use crate::key::{Key, KeyRef};
use crate::scanner::{JsonCursor, Text};
use crate::version::ResourceVersion;

/// The identity of an object that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredHead {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid; empty if that cannot be read.
    pub uid: String,
    /// Its resource version; empty if that cannot be read.
    pub version: ResourceVersion,
}

/// Where the fields are in the text.
#[derive(Default)]
struct Found {
    namespace: Option<Text>,
    name: Option<Text>,
    uid: Option<Text>,
    version: Option<Text>,
    /// The end of metadata was reached.
    complete: bool,
}

impl RecoveredHead {
    /// Reads what `json` shows of an object: its beginning, or text in which something is broken. `None` if the key is
    /// not certain: metadata neither ends in `json`, nor has both name and namespace.
    ///
    /// Fields of other types are passed over, and other members are skipped by counting their brackets, so that
    /// metadata behind a broken one is found.
    #[must_use]
    pub fn read(json: &[u8]) -> Option<RecoveredHead> {
        let mut cursor = JsonCursor::new(json);
        // Wherever the walk ends, what it found before stands.
        let found = find(&mut cursor);
        if !found.complete && found.namespace.is_none() {
            return None;
        }
        let decode = |text: Option<Text>| text.map_or(Some("".into()), |text| text.decode(json));
        let (namespace, name) = (decode(found.namespace)?, decode(found.name)?);
        let version = decode(found.version).unwrap_or_default();
        (!name.is_empty()).then(|| RecoveredHead {
            key: Key::new(&namespace, &name),
            uid: decode(found.uid).unwrap_or_default().into_owned(),
            version: ResourceVersion::new(&version),
        })
    }

    /// Whether this can be the object with `key` and `uid`: it has that key, and no other uid.
    #[must_use]
    pub fn can_be(&self, key: KeyRef<'_>, uid: &str) -> bool {
        self.key.as_ref() == key && (self.uid.is_empty() || uid.is_empty() || self.uid == uid)
    }
}

/// The fields of the last `metadata`, as far as the text can be followed.
fn find(cursor: &mut JsonCursor<'_>) -> Found {
    let mut found = Found::default();
    cursor.skip_space();
    let Ok(mut members) = cursor.enter_object() else {
        return found;
    };
    while let Ok(Some(name)) = cursor.next_member(&mut members) {
        let skipped = if name.is(cursor.text(), "metadata") && cursor.peek() == Some(b'{') {
            found = Found::default();
            found.metadata(cursor)
        } else {
            cursor.skip_discarded().ok()
        };
        if skipped.is_none() {
            break;
        }
    }
    found
}

impl Found {
    fn metadata(&mut self, cursor: &mut JsonCursor<'_>) -> Option<()> {
        let mut members = cursor.enter_object().ok()?;
        while let Some(name) = cursor.next_member(&mut members).ok()? {
            let text = cursor.text();
            let fields = [
                ("namespace", &mut self.namespace),
                ("name", &mut self.name),
                ("uid", &mut self.uid),
                ("resourceVersion", &mut self.version),
            ];
            let field = fields.into_iter().find(|(own, _)| name.is(text, own));
            match field {
                Some((_, field)) if cursor.peek() == Some(b'"') => *field = Some(cursor.string("a string").ok()?),
                _ => cursor.skip_discarded().ok()?,
            }
        }
        self.complete = true;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovered(json: &str) -> Option<String> {
        let head = RecoveredHead::read(json.as_bytes())?;
        Some(format!("{} {} {}", head.key, head.uid, head.version.as_str()))
    }

    #[test]
    fn the_head_is_read_before_and_behind_what_is_broken() {
        let metadata = r#""metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5"}"#;
        for json in [
            format!(r#"{{{metadata},"spec":{{"x":[}}]}}}}"#),
            format!(r#"{{"spec":{{"x":[{{]}}}},{metadata}}}"#),
            format!(r#"{{"apiVersion":7,{metadata},"spec":{{"trunca"#),
            format!("{{{}{metadata}", r#""spec":"\ud800","#),
        ] {
            assert_eq!(recovered(&json).as_deref(), Some("n/a u 5"), "{json}");
        }
    }

    #[test]
    fn fields_of_wrong_types_are_passed_over() {
        let json = r#"{"metadata":{"resourceVersion":5,"uid":["x"],"name":"a","labels":{"name":"b"}}}"#;
        assert_eq!(recovered(json).as_deref(), Some("a  "));
    }

    #[test]
    fn an_uncertain_key_is_not_recovered() {
        for json in [
            "",
            "[]",
            "{}",
            r#"{"metadata":{"uid":"u"}}"#,
            r#"{"metadata":{"name":""}}"#,
            // The namespace may follow.
            r#"{"metadata":{"name":"a","uid":"u""#,
            // An escape that JSON does not know.
            r#"{"metadata":{"name":"\x"}}"#,
            // Not the object's own.
            r#"{"spec":{"template":{"metadata":{"name":"a","namespace":"n"}}}}"#,
            r#"{"spec":"\"metadata\":{\"name\":\"a\"}"}"#,
        ] {
            assert_eq!(recovered(json), None, "{json}");
        }
    }

    #[test]
    fn another_uid_is_another_object() {
        let head = |json: &str| RecoveredHead::read(json.as_bytes()).expect("a head");
        let with_uid = head(r#"{"metadata":{"name":"a","uid":"u"}}"#);
        let without = head(r#"{"metadata":{"name":"a"}}"#);
        let key = KeyRef::new("", "a");
        assert!(with_uid.can_be(key, "u") && !with_uid.can_be(key, "v"));
        assert!(without.can_be(key, "v") && !without.can_be(KeyRef::new("", "b"), "v"));
    }
}
