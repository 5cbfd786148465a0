//! Addresses that a name must not resolve to: those of this machine, of its network and of its cloud.
//!
//! A plugin that could reach them through a name of its choice would reach Informant's own admin API, or the
//! credentials of the node. Private addresses are allowed: the services of a cluster have them, and the nodes. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of metadata services that belong to no forbidden network: Alibaba Cloud, Azure, Oracle Cloud.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The same in IPv6: Google Cloud, Oracle Cloud, Scaleway.
const METADATA_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe),
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
];

/// The network of AWS' services of a machine, `fd00:ec2::/32`: metadata, credentials of pods, DNS.
const AWS_V6: [u16; 4] = [0xfd00, 0xec2, 0, 0];

/// Networks in IPv6 whose addresses contain one in IPv4 or stand for one: first segments and the number of bits.
const TRANSLATED_V6: [([u16; 4], u32); 4] = [
    // NAT64 (RFC 6052), and its local-use prefix (RFC 8215).
    ([0x64, 0xff9b, 0, 0], 96),
    ([0x64, 0xff9b, 1, 0], 48),
    // 6to4.
    ([0x2002, 0, 0, 0], 16),
    // Teredo.
    ([0x2001, 0, 0, 0], 32),
];

/// Why a name must not resolve to `address`; none: it may.
#[must_use]
pub fn forbidden_address(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => forbidden_v6(address),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address {
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.octets()[0] == 0 => Some("an unspecified address"),
        _ if METADATA_V4.contains(&address) || address == Ipv4Addr::new(169, 254, 169, 254) => {
            Some("the address of a metadata service")
        }
        _ if address.is_link_local() => Some("a link-local address"),
        _ if address.is_multicast() => Some("a multicast address"),
        // 240.0.0.0/4, with the broadcast address.
        _ if address.octets()[0] >= 240 => Some("a reserved address"),
        _ => None,
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    match address {
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_unspecified() => Some("an unspecified address"),
        _ if METADATA_V6.contains(&address) || has_prefix(address, AWS_V6, 32) => {
            Some("the address of a metadata service")
        }
        _ if address.is_unicast_link_local() || segments[0] & 0xffc0 == 0xfec0 => Some("a link-local address"),
        _ if address.is_multicast() => Some("a multicast address"),
        // IPv4-mapped (::ffff:0:0/96), IPv4-compatible (::/96) and IPv4-translated (::ffff:0:0:0/96).
        _ if segments[..4] == [0; 4] && matches!(segments[4..6], [0, 0 | 0xffff] | [0xffff, 0]) => {
            Some("an IPv4 address in IPv6")
        }
        _ if TRANSLATED_V6
            .iter()
            .any(|(prefix, bits)| has_prefix(address, *prefix, *bits)) =>
        {
            Some("a translated IPv4 address")
        }
        _ => None,
    }
}

fn has_prefix(address: Ipv6Addr, prefix: [u16; 4], bits: u32) -> bool {
    let [a, b, c, d] = prefix;
    let prefix = u128::from(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0));
    (u128::from(address) ^ prefix) >> (128 - bits) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_machine_and_its_cloud_are_forbidden() {
        for text in [
            "127.0.0.1",
            "127.8.9.1",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.1.1",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::1",
            "2001:0:1::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "fd20:ce::254",
        ] {
            assert!(forbidden_address(text.parse().unwrap()).is_some(), "{text}");
        }
    }

    #[test]
    fn public_and_private_addresses_are_allowed() {
        for text in [
            "8.8.8.8",
            "10.96.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "100.64.0.7",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "fd00:10:96::1",
        ] {
            assert_eq!(forbidden_address(text.parse().unwrap()), None, "{text}");
        }
    }
}
