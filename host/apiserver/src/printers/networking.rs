//! Services, endpoints, ingresses and network policies.

use serde_json::{Value, json};

use super::cells::{
    NONE, UNSET, addresses, items, joined, labelled, name_or_default, number, or, or_none, plain, selecting, text,
};
use super::column::{AGE, Column, NAME, column, field};

/// Maximum number of hosts or endpoints shown; the rest are only counted.
const SHOWN_MAX: usize = 3;

pub(super) const SERVICES: &[Column] = &[
    NAME,
    field("Type", &["/spec/type"], plain),
    column(
        "Cluster-IP",
        &["/spec/clusterIPs", "/spec/clusterIP"],
        |it, _| match &it["spec"]["clusterIPs"][0] {
            Value::Null => or_none(&it["spec"]["clusterIP"]),
            ip => or_none(ip),
        },
    ),
    column(
        "External-IP",
        &[
            "/spec/type",
            "/spec/externalIPs",
            "/spec/externalName",
            "/status/loadBalancer",
        ],
        |it, _| json!(external_ip(it)),
    ),
    column(
        "Port(s)",
        &["/spec/ports/*/port", "/spec/ports/*/nodePort", "/spec/ports/*/protocol"],
        |it, _| json!(ports(&it["spec"]["ports"])),
    ),
    AGE,
    field("Selector", &["/spec/selector"], labelled).wide(),
];

pub(super) const ENDPOINTS: &[Column] = &[
    NAME,
    column(
        "Endpoints",
        &["/subsets/*/addresses/*/ip", "/subsets/*/ports/*/port"],
        |it, _| json!(endpoints(it)),
    ),
    AGE,
];

pub(super) const ENDPOINT_SLICES: &[Column] = &[
    NAME,
    field("AddressType", &["/addressType"], plain),
    column("Ports", &["/ports/*/port", "/ports/*/name"], |it, _| {
        json!(slice_ports(it))
    }),
    column("Endpoints", &["/endpoints/*/addresses"], |it, _| {
        let addresses = items(&it["endpoints"]).iter().flat_map(|it| items(&it["addresses"]));
        let addresses: Vec<String> = addresses.map(|it| text(it).to_owned()).collect();
        json!(if addresses.is_empty() {
            UNSET.to_owned()
        } else {
            shortened(&addresses, addresses.len())
        })
    }),
    AGE,
];

pub(super) const INGRESSES: &[Column] = &[
    NAME,
    field("Class", &["/spec/ingressClassName"], or_none),
    column("Hosts", &["/spec/rules/*/host"], |it, _| json!(hosts(it))),
    column("Address", &["/status/loadBalancer"], |it, _| {
        json!(addresses(&it["status"]))
    }),
    column("Ports", &["/spec/tls"], |it, _| {
        json!(if items(&it["spec"]["tls"]).is_empty() {
            "80"
        } else {
            "80, 443"
        })
    }),
    AGE,
];

pub(super) const INGRESS_CLASSES: &[Column] = &[
    column("Name", &["/metadata/annotations"], |it, _| {
        name_or_default(it, "ingressclass.kubernetes.io/is-default-class")
    }),
    field("Controller", &["/spec/controller"], plain),
    column("Parameters", &["/spec/parameters"], |it, _| {
        let parameters = &it["spec"]["parameters"];
        if !parameters.is_object() {
            return json!(NONE);
        }
        let (kind, name) = (text(&parameters["kind"]), text(&parameters["name"]));
        match parameters["apiGroup"].as_str() {
            Some(group) => json!(format!("{kind}.{group}/{name}")),
            None => json!(format!("{kind}/{name}")),
        }
    }),
    AGE,
];

pub(super) const NETWORK_POLICIES: &[Column] = &[NAME, field("Pod-Selector", &["/spec/podSelector"], selecting), AGE];

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let external: Vec<&str> = items(&spec["externalIPs"]).iter().map(text).collect();
    let balanced = addresses(&service["status"]);
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if external.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" if external.is_empty() && balanced.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" if external.is_empty() => balanced,
        "LoadBalancer" if balanced.is_empty() => external.join(","),
        "LoadBalancer" => format!("{balanced},{}", external.join(",")),
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(ports: &Value) -> String {
    let port = |port: &Value| {
        let (number_, protocol) = (number(&port["port"]), or(&port["protocol"], "TCP"));
        match number(&port["nodePort"]) {
            0 => format!("{number_}/{protocol}"),
            node => format!("{number_}:{node}/{protocol}"),
        }
    };
    let ports: Vec<String> = items(ports).iter().map(port).collect();
    joined(&ports)
}

/// The first elements of a list, and the number of others.
fn shortened(list: &[String], count: usize) -> String {
    let shown = list[..list.len().min(SHOWN_MAX)].join(",");
    if list.len() > SHOWN_MAX {
        format!("{shown} + {} more...", count - SHOWN_MAX)
    } else {
        shown
    }
}

fn hosts(ingress: &Value) -> String {
    let rules = items(&ingress["spec"]["rules"]);
    let hosts = rules.iter().map(|rule| text(&rule["host"]).to_owned());
    let hosts: Vec<String> = hosts.filter(|host| !host.is_empty()).collect();
    if hosts.is_empty() {
        "*".to_owned()
    } else {
        shortened(&hosts, rules.len())
    }
}

fn endpoints(endpoints: &Value) -> String {
    let mut list = Vec::new();
    for subset in items(&endpoints["subsets"]) {
        let ips = || items(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
        let ports = items(&subset["ports"]);
        if ports.is_empty() {
            list.extend(ips().map(str::to_owned));
        }
        for port in ports {
            let port = number(&port["port"]);
            let joined = |ip: &str| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            };
            list.extend(ips().map(joined));
        }
    }
    if items(&endpoints["subsets"]).is_empty() {
        NONE.to_owned()
    } else {
        shortened(&list, list.len())
    }
}

fn slice_ports(slice: &Value) -> String {
    let port = |port: &Value| match port["port"].as_i64() {
        Some(number) => number.to_string(),
        None => or(&port["name"], "*").to_owned(),
    };
    let ports: Vec<String> = items(&slice["ports"]).iter().map(port).collect();
    if ports.is_empty() {
        UNSET.to_owned()
    } else {
        shortened(&ports, ports.len())
    }
}
