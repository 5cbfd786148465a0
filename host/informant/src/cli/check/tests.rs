use clap::Parser;

use super::*;
use crate::config::SourceFile;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    check: CheckArgs,
}

/// What `--cluster` comes to: whether it was given, and the names.
fn given(args: &[&str]) -> Result<Option<Vec<String>>, String> {
    let line = Line::try_parse_from(["check"].iter().chain(args));
    line.map(|line| line.check.cluster)
        .map_err(|error| error.kind().to_string())
}

#[test]
fn cluster_is_a_switch_and_takes_names() {
    assert_eq!(given(&[]), Ok(None));
    assert_eq!(given(&["--cluster"]), Ok(Some(Vec::new())));
    assert_eq!(given(&["--cluster", "-c", "other.toml"]), Ok(Some(Vec::new())));
    for args in [
        &["--cluster", "east", "--cluster=west"][..],
        &["--cluster=east,west"],
        &["--cluster", "east,west", "-c", "other.toml"],
    ] {
        assert_eq!(
            given(args),
            Ok(Some(vec!["east".to_owned(), "west".to_owned()])),
            "{args:?}"
        );
    }
    assert!(given(&["--cluster="]).is_err());
    assert!(given(&["--cluster", "east", "--offline"]).is_err());
}

#[test]
fn a_cluster_that_is_not_there_is_answered_with_those_that_are() {
    let config = |text: &str| Config::parse(&SourceFile::new("config.toml", text)).unwrap();
    let pods = "[informer.pods]\nresource = \"v1/pods\"\n";
    let (one, two) = (
        config(pods),
        config(&format!(
            "[cluster.east]\ncontext = \"e\"\n[cluster.west]\ncontext = \"w\"\n{pods}"
        )),
    );
    let said = |config: &Config, names: &[&str]| {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        match which(config, &names) {
            Ok(clusters) => format!("{clusters:?}"),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(said(&one, &[]), r#"[""]"#);
    assert_eq!(said(&two, &[]), r#"["east", "west"]"#);
    assert_eq!(said(&two, &["west"]), r#"["west"]"#);
    insta::assert_snapshot!(said(&one, &["east"]), @"--cluster east: the configuration has one cluster, which has no name: write `--cluster` without one");
    insta::assert_snapshot!(said(&two, &["west", "wset"]), @"--cluster wset: the configuration has no such cluster; clusters: `east`, `west`");
}
