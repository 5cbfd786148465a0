use clap::Parser;
use informant_config::SourceFile;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    check: CheckArgs,
}

/// Whether `--cluster` was given, and its names.
fn parse_cluster_flag(args: &[&str]) -> Result<Option<Vec<String>>, String> {
    let line = Line::try_parse_from(["check"].iter().chain(args));
    line.map(|line| line.check.cluster)
        .map_err(|error| error.kind().to_string())
}

#[test]
fn cluster_flag_takes_zero_or_more_names() {
    assert_eq!(parse_cluster_flag(&[]), Ok(None));
    assert_eq!(parse_cluster_flag(&["--cluster"]), Ok(Some(Vec::new())));
    assert_eq!(
        parse_cluster_flag(&["--cluster", "-c", "other.toml"]),
        Ok(Some(Vec::new()))
    );
    for args in [
        &["--cluster", "east", "--cluster=west"][..],
        &["--cluster=east,west"],
        &["--cluster", "east,west", "-c", "other.toml"],
    ] {
        assert_eq!(
            parse_cluster_flag(args),
            Ok(Some(vec!["east".to_owned(), "west".to_owned()])),
            "{args:?}"
        );
    }
    assert!(parse_cluster_flag(&["--cluster="]).is_err());
    assert!(parse_cluster_flag(&["--cluster", "east", "--offline"]).is_err());
}

#[test]
fn unknown_cluster_error_lists_the_known_clusters() {
    let config = |text: &str| Config::parse(&SourceFile::new("config.toml", text)).unwrap();
    let pods = "[informer.pods]\nresource = \"v1/pods\"\n";
    let (one, two) = (
        config(pods),
        config(&format!(
            "[cluster.east]\ncontext = \"e\"\n[cluster.west]\ncontext = \"w\"\n{pods}"
        )),
    );
    let selected = |config: &Config, names: &[&str]| {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        match select_clusters(config, &names) {
            Ok(clusters) => format!("{clusters:?}"),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(selected(&one, &[]), r#"[""]"#);
    assert_eq!(selected(&two, &[]), r#"["east", "west"]"#);
    assert_eq!(selected(&two, &["west"]), r#"["west"]"#);
    insta::assert_snapshot!(selected(&one, &["east"]), @"--cluster east: the configuration has one unnamed cluster: use `--cluster` without a name");
    insta::assert_snapshot!(selected(&two, &["west", "wset"]), @"--cluster wset: no such cluster in the configuration; clusters: `east`, `west`");
}

#[test]
fn progress_says_which_check_of_how_many_runs() {
    insta::assert_snapshot!(super::progress("informer pods in cluster east", 1, 7), @"checking informer pods in cluster east (2 of 7)");
}
