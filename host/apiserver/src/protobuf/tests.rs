//! The bodies were sent by kubectl 1.33.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap())
        .collect()
}

const SERVICE: &str = "6b3873000a0d0a02763112075365727669636512630a1b0a017312001a0022002a003200380042005a080a036170701201731240\
     0a1b0a0738302d38303830120354435018502207080010903f1a00280012080a036170701201731a002209436c757374657249503a00420052005a0060006800\
     1a020a001a002200";

fn read_hex(hex: &str) -> String {
    read(&bytes(&hex.replace(' ', ""))).map_or_else(|error| error.to_string(), |object| object.to_string())
}

#[test]
fn protobuf_bodies_of_kubectl_are_read_as_json() {
    let secret = "6b3873000a0c0a027631120653656372657412230a110a017312001a0022002a00320038004200120c0a0170120768756e746572321a001a002200";
    let namespace = "6b3873000a0f0a02763112094e616d657370616365121c0a140a047465616d12001a0022002a0032003800420012001a020a001a002200";
    insta::assert_snapshot!([SERVICE, secret, namespace].map(read_hex).join("\n"), @r#"
    {"apiVersion":"v1","kind":"Service","metadata":{"labels":{"app":"s"},"name":"s"},"spec":{"ports":[{"name":"80-8080","port":80,"protocol":"TCP","targetPort":8080}],"selector":{"app":"s"},"type":"ClusterIP"}}
    {"apiVersion":"v1","data":{"p":"aHVudGVyMg=="},"kind":"Secret","metadata":{"name":"s"}}
    {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}
    "#);
}

#[test]
fn a_truncated_body_never_panics() {
    let whole = bytes(&SERVICE.replace(' ', ""));
    for end in 0..whole.len() {
        let _ = read(&whole[..end]);
    }
    assert_eq!(read(b"{}"), Err(ProtobufError::NoMagic));
    assert!(matches!(
        read(&whole[..whole.len() - 3]),
        Err(ProtobufError::Malformed(_))
    ));
}

#[test]
fn the_error_names_an_unknown_kind() {
    let node_metrics = b"k8s\0\x0a\x0e\x0a\x06x.y/v1\x12\x04Nope";
    insta::assert_snapshot!(read(node_metrics).unwrap_err(), @r#""Nope" of "x.y/v1" cannot be read from protocol buffers by this server; send it as JSON"#);
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(noise in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let mut body = bytes(&SERVICE.replace(' ', ""))[..20].to_vec();
        body.extend(noise);
        let _ = read(&body);
    }
}
