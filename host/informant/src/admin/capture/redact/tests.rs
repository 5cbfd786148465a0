use serde_json::json;

use super::*;

fn redacted(mut value: Value, of: Use) -> (Value, Vec<String>) {
    let mut redactor = Redactor::default();
    redactor.value(&mut value, of);
    (value, redactor.found())
}

#[test]
fn values_of_credentials_become_placeholders() {
    let value = json!({
        "Authorization": "Bearer abc", "set-cookie": ["a=b", "c=d"], "api_key": "k", "apiToken": "t", "DB_PASSWORD": "p",
        "clientSecret": "s", "pass": "p", "nested": { "passphrase": "p", "plain": "kept" }, "password": "",
    });
    insta::assert_snapshot!(redacted(value, Use::Data).0, @r#"{"Authorization":"REDACTED","DB_PASSWORD":"REDACTED","apiToken":"REDACTED","api_key":"REDACTED","clientSecret":"REDACTED","nested":{"passphrase":"REDACTED","plain":"kept"},"pass":"REDACTED","password":"","set-cookie":["REDACTED","REDACTED"]}"#);
}

#[test]
fn numbers_with_the_name_of_a_credential_become_zero() {
    let value = json!({
        "password": 4711, "pass": [1, "two", 0], "token": 0, "secret": true, "port": 80,
        "env": [{ "name": "DB_PASSWORD", "value": -1.5 }],
    });
    let (shown, found) = redacted(value.clone(), Use::Data);
    assert_eq!(
        shown,
        json!({
            "password": 0, "pass": [0, "REDACTED", 0], "token": 0, "secret": true, "port": 80,
            "env": [{ "name": "DB_PASSWORD", "value": 0 }],
        })
    );
    assert_eq!(found, ["DB_PASSWORD", "pass", "password"]);
    assert_eq!(
        redacted(value, Use::Pattern).0,
        json!({ "token": 0, "secret": true, "port": 80, "env": [{ "name": "DB_PASSWORD" }] })
    );
}

#[test]
fn numbers_that_count_tokens_are_kept() {
    let value = json!({ "max_tokens": 4096, "tokensPerFill": 10, "line": "\"max-tokens\": 7" });
    assert_eq!(redacted(value.clone(), Use::Data), (value, Vec::new()));
}

#[test]
fn texts_below_the_name_of_a_credential_are_redacted() {
    let value = json!({
        "credentials": { "user": "u", "key": "hunter2", "retries": 3, "secretName": "db" },
        "tokens": [{ "value": "abc" }], "secret": { "secretName": "db", "defaultMode": 420 },
    });
    let (shown, found) = redacted(value.clone(), Use::Data);
    assert_eq!(
        shown,
        json!({
            "credentials": { "user": "REDACTED", "key": "REDACTED", "retries": 3, "secretName": "db" },
            "tokens": [{ "value": "REDACTED" }], "secret": { "secretName": "db", "defaultMode": 420 },
        })
    );
    assert_eq!(found, ["credentials", "tokens"]);
    assert_eq!(
        redacted(value, Use::Pattern).0,
        json!({
            "credentials": { "retries": 3, "secretName": "db" }, "tokens": [{}],
            "secret": { "secretName": "db", "defaultMode": 420 },
        })
    );
}

#[test]
fn items_of_a_list_of_secrets_are_secrets() {
    let list = json!({ "apiVersion": "v1", "kind": "SecretList", "items": [{ "data": { "user": "YQ==" } }] });
    let (shown, found) = redacted(list, Use::Data);
    assert_eq!(shown["items"][0]["data"], json!({ "user": "UkVEQUNURUQ=" }));
    assert_eq!(found, ["data of Secrets"]);
}

#[test]
fn only_harmless_headers_of_requests_are_kept() {
    let mut redactor = Redactor::default();
    let headers = json!({
        "accept": "text/plain", "authorization": "Bearer abc", "content-type": "text/plain", "x-auth-key": "abc",
        "user-agent": "greeter (https://user:pass@host.example)",
    });
    let Value::Object(mut headers) = headers else {
        unreachable!("it is an object");
    };
    redactor.request_headers(&mut headers);
    assert_eq!(
        Value::from(headers),
        json!({ "accept": "text/plain", "content-type": "text/plain" })
    );
    assert_eq!(redactor.found(), ["authorization", "user-agent", "x-auth-key"]);
}

#[test]
fn names_of_places_are_kept() {
    let value = json!({
        "secretName": "db", "secretRef": { "name": "db" }, "tokenPath": "/var/token", "passwordFile": "/etc/p",
        "automountServiceAccountToken": true, "tokenTtl": 30, "author": "me", "tokens": {},
    });
    assert_eq!(redacted(value.clone(), Use::Data), (value, Vec::new()));
}

#[test]
fn variables_with_the_name_of_a_credential_are_redacted() {
    let value = json!([{ "name": "DB_PASSWORD", "value": "p" }, { "name": "DB_HOST", "value": "db" }]);
    let (shown, found) = redacted(value, Use::Data);
    assert_eq!(
        shown,
        json!([{ "name": "DB_PASSWORD", "value": "REDACTED" }, { "name": "DB_HOST", "value": "db" }])
    );
    assert_eq!(found, ["DB_PASSWORD"]);
}

#[test]
fn redacted_members_are_left_out_of_patterns() {
    let value = json!({ "token": "t", "a": 1, "list": [{ "password": "p", "b": 2 }] });
    assert_eq!(redacted(value, Use::Pattern).0, json!({ "a": 1, "list": [{ "b": 2 }] }));
}

#[test]
fn secrets_keep_their_keys_only() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "db" }, "data": { "a": "YQ==" },
        "stringData": { "b": "b" },
    });
    let (shown, found) = redacted(json!({ "items": [secret] }), Use::Data);
    assert_eq!(shown["items"][0]["data"], json!({ "a": "UkVEQUNURUQ=" }));
    assert_eq!(shown["items"][0]["stringData"], json!({ "b": "REDACTED" }));
    assert_eq!(found, ["data of Secrets", "stringData of Secrets"]);
    let config_map = json!({ "kind": "ConfigMap", "apiVersion": "v1", "data": { "a": "b" } });
    assert_eq!(redacted(config_map.clone(), Use::Data), (config_map, Vec::new()));
}

#[test]
fn applied_configurations_are_removed() {
    let value = json!({ "annotations": { LAST_APPLIED: "{}", "other": "kept" } });
    assert_eq!(
        redacted(value, Use::Data).0,
        json!({ "annotations": { "other": "kept" } })
    );
}

#[test]
fn credentials_in_texts_are_cut_out() {
    let mut redactor = Redactor::default();
    let texts = [
        "https://user:pass@host.example/a?b=c",
        "see postgres://u@db:5432/x and https://host.example/@me",
        "https://host.example/hook?token=abc&next=1#a",
        "https://host.example/?api_key=abc",
        "sent Authorization: Bearer abcdefgh.ijkl=, got 401",
        "Basic things, a bearer of news",
        "2 * 3 = 6",
        "password=abc&user=me",
        "login(user=me, password=abc) failed, my.token=abc, monkey=abc",
        r#"got {"a":1,"password": "a\"b","b":"c"} and {"token":"cut o"#,
        r#"got {"token": 4711,"pass":-1.5e3} and {"token":true,"pass":"#,
        "{\"plain\":1}\n{\"apiKey\":\"abc\"}",
        "ünïcode://ä:ö@ü",
    ];
    let shown = texts.map(|text| {
        format!(
            "{}\n{}",
            redactor.text(text).unwrap_or_default(),
            redactor.pattern(text)
        )
    });
    insta::assert_snapshot!(shown.join("\n\n"), @r#"
    https://REDACTED@host.example/a?b=c
    https://*@host.example/a?b=c

    see postgres://REDACTED@db:5432/x and https://host.example/@me
    see postgres://*@db:5432/x and https://host.example/@me

    https://host.example/hook?token=REDACTED&next=1#a
    https://host.example/hook?token=*&next=1#a

    https://host.example/?api_key=REDACTED
    https://host.example/?api_key=*

    sent Authorization: Bearer REDACTED, got 401
    sent Authorization: Bearer *, got 401


    Basic things, a bearer of news


    2 \* 3 = 6

    password=REDACTED&user=me
    password=*&user=me

    login(user=me, password=REDACTED) failed, my.token=REDACTED, monkey=abc
    login(user=me, password=*) failed, my.token=*, monkey=abc

    got {"a":1,"password": "REDACTED","b":"c"} and {"token":"REDACTED
    got {"a":1,"password": "*","b":"c"} and {"token":"*

    got {"token": 0,"pass":0} and {"token":true,"pass":
    got {"token": *,"pass":*} and {"token":true,"pass":

    {"plain":1}
    {"apiKey":"REDACTED"}
    {"plain":1}
    {"apiKey":"*"}

    ünïcode://REDACTED@ü
    ünïcode://*@ü
    "#);
}

#[test]
fn values_of_secrets_stay_base64_whatever_their_names() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "data": { "password": "YQ==" },
        "metadata": { "annotations": { "token": "t" } },
    });
    let shown = redacted(secret, Use::Data).0;
    assert_eq!(shown["data"]["password"], "UkVEQUNURUQ=");
    assert_eq!(shown["metadata"]["annotations"]["token"], "REDACTED");
}

#[test]
fn documents_in_texts_are_redacted_too() {
    let value = json!({ "config.json": "{ \"password\": \"p\", \"a\": 1 }", "list": "[1, 2]" });
    let shown = redacted(value, Use::Pattern).0;
    assert_eq!(
        shown,
        json!({ "config.json": r#"{"a":1,"password":"REDACTED"}"#, "list": "[1, 2]" })
    );
}

#[test]
fn long_texts_are_searched_in_linear_time() {
    let mut redactor = Redactor::default();
    for text in [
        "a".repeat(50_000) + "=b",
        "[".repeat(50_000),
        "\"".repeat(50_000),
        " a".repeat(25_000),
    ] {
        assert_eq!(redactor.text(&text), None);
    }
    assert_eq!(
        redactor.pattern(r#"{"kind":"Secret","apiVersion":"v1","data":{"a":"YQ=="}}"#),
        "*"
    );
}
