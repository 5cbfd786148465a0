//! The identity of an object, as a number that is equal in every process, version and architecture.
//!
//! FNV-1a (64 bits) over `cluster 0x00 group/plural 0x00 namespace 0x00 name`, then the 64-bit finalizer of
//! MurmurHash3.
//! FNV-1a alone does not spread numbered names over ranges: `ns-000` to `ns-199` all fall into one of eight. The uid is
//! no part of it, so that two incarnations of a name have the same identity.
//!
//! Anybody who can name objects can choose their numbers: use it to divide work, not for a hash table.

use informant_object::KeyRef;

/// The cluster and the resource of a source: the same for two sources that deliver the same objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceIdentity(u64);

/// The identity of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectIdentity(u64);

impl ResourceIdentity {
    /// The resource `group/plural` in `cluster`; the core group is empty.
    #[must_use]
    pub fn new(cluster: &str, group: &str, plural: &str) -> ResourceIdentity {
        let parts = [cluster, "\0", group, "/", plural, "\0"];
        ResourceIdentity(parts.iter().fold(FNV_OFFSET_BASIS, |hash, part| fnv1a(hash, part)))
    }

    /// The object at `key`.
    #[must_use]
    pub fn object(self, key: KeyRef<'_>) -> ObjectIdentity {
        let parts = [key.namespace, "\0", key.name];
        ObjectIdentity(finalize(parts.iter().fold(self.0, |hash, part| fnv1a(hash, part))))
    }
}

impl ObjectIdentity {
    /// Which of `count` equal ranges it falls into, from 0.
    #[must_use]
    pub fn range(self, count: u8) -> u8 {
        range_of(self.0, count)
    }
}

/// A number for a list of texts that is equal in every process and version. No text may contain a 0x00.
#[must_use]
pub fn stable_hash(texts: &[&str]) -> u64 {
    finalize(
        texts
            .iter()
            .fold(FNV_OFFSET_BASIS, |hash, text| fnv1a(fnv1a(hash, text), "\0")),
    )
}

/// FNV-1a of a text, without a finalizer: what the API server's `shardSelector` compares (KEP-5866).
pub(crate) fn fnv1a_hash(text: &str) -> u64 {
    fnv1a(FNV_OFFSET_BASIS, text)
}

/// Which of `count` equal ranges of all numbers `hash` falls into, from 0. Range `i` begins at the first number that is
/// at least `i * 2^64 / count`.
pub(crate) fn range_of(hash: u64, count: u8) -> u8 {
    // The high half of the product is below the count, which is a `u8`.
    ((u128::from(hash) * u128::from(count)) >> 64) as u8
}

const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn fnv1a(hash: u64, text: &str) -> u64 {
    text.bytes()
        .fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

/// MurmurHash3's `fmix64`.
fn finalize(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_functions_return_their_published_values() {
        // From the test vectors of FNV's authors, and of MurmurHash3's finalizer.
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(FNV_OFFSET_BASIS, text), hash, "{text}");
        }
        for (hash, mixed) in [(0, 0), (1, 0xb456_bcfc_34c2_cb2c), (u64::MAX, 0x64b5_720b_4b82_5f21)] {
            assert_eq!(finalize(hash), mixed, "{hash}");
        }
    }

    #[test]
    fn identity_is_the_same_in_every_version() {
        let pods = ResourceIdentity::new("prod", "", "pods");
        let deployments = ResourceIdentity::new("prod", "apps", "deployments");
        let key = KeyRef::new("default", "web-0");
        assert_eq!(pods.object(key).0, 0x0d0a_8e96_82e1_7a06);
        assert_eq!(
            pods.object(key).0,
            finalize(fnv1a(FNV_OFFSET_BASIS, "prod\0/pods\0default\0web-0"))
        );
        assert_ne!(pods.object(key), deployments.object(key));
    }

    /// None of the ranges gets more than 1.6 of the mean.
    #[test]
    fn numbered_names_spread_over_ranges() {
        for (prefix, in_name) in [("ns-", false), ("web-", true)] {
            for count in [2_u8, 4, 8] {
                let mut sizes = vec![0; usize::from(count)];
                for number in 0..200 {
                    let numbered = format!("{prefix}{number:03}");
                    let key = match in_name {
                        true => KeyRef::new("default", &numbered),
                        false => KeyRef::new(&numbered, "app"),
                    };
                    let identity = ResourceIdentity::new("", "apps", "deployments").object(key);
                    sizes[usize::from(identity.range(count))] += 1;
                }
                let max = sizes.iter().max().copied().unwrap_or_default();
                assert!(
                    max * usize::from(count) * 10 <= 200 * 16,
                    "{prefix} over {count}: {sizes:?}"
                );
            }
        }
    }
}
