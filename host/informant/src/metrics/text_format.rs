//! The two text formats of metrics, and which one a client asks for.
//!
//! The registry writes OpenMetrics. The Prometheus text format 0.0.4 has the same samples. Its metadata differs: a
//! counter is named with its suffix, there are fewer types, no units, and no end mark.

use http::HeaderMap;
use http::header::ACCEPT;
use mime::Mime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// Prometheus text format 0.0.4, which every scraper reads.
    Text,
    /// OpenMetrics 1.0.0, for clients that ask for it.
    OpenMetrics,
}

impl MetricsFormat {
    /// The format that the client prefers; OpenMetrics only if it names it.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let types = accepted
            .flat_map(|value| value.split(','))
            .filter_map(|part| part.trim().parse::<Mime>().ok());
        let (mut openmetrics, mut text) = (0.0, 0.0);
        for accepted in types {
            let quality = quality(&accepted);
            match accepted.essence_str() {
                "application/openmetrics-text" => openmetrics = quality.max(openmetrics),
                "text/plain" => text = quality.max(text),
                _ => {}
            }
        }
        if openmetrics > 0.0 && openmetrics >= text {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    pub(crate) fn convert(self, openmetrics: String) -> String {
        match self {
            Self::Text => to_text(&openmetrics),
            Self::OpenMetrics => openmetrics,
        }
    }
}

/// The weight of a media type: 1 unless `q` says otherwise.
fn quality(accepted: &Mime) -> f32 {
    let quality = accepted
        .get_param("q")
        .and_then(|quality| quality.as_str().parse().ok());
    quality.unwrap_or(1.0)
}

/// Rewrites the metadata. The type of a family comes after its help, so the help waits for it.
fn to_text(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let kind = match kind {
                "info" | "stateset" => "gauge",
                "unknown" => "untyped",
                kind => kind,
            };
            // The samples of an info metric have the suffix already.
            let name = if line.ends_with(" info") {
                format!("{name}_info")
            } else {
                format!("{name}{suffix}")
            };
            if let Some((_, help)) = help.take() {
                text.extend(["# HELP ", &name, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", &name, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use prometheus_client::encoding::text;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    #[test]
    fn text_format_has_the_names_and_types_of_prometheus() {
        let mut registry = Registry::with_prefix("informant");
        let histogram = Histogram::new([0.5, 1.0]);
        histogram.observe(0.7);
        registry.register("calls", "Calls", Counter::<u64>::default());
        registry.register("depth", "Depth", Gauge::<i64>::default());
        registry.register("lag_seconds", "Lag", histogram);
        registry.register("build", "Build", Info::new(vec![("version", "1 # \"x\"")]));
        registry.register_with_unit("size", "Size", Unit::Bytes, Gauge::<i64>::default());
        let mut openmetrics = String::new();
        text::encode(&mut openmetrics, &registry).unwrap();
        insta::assert_snapshot!(MetricsFormat::Text.convert(openmetrics.clone()), @r##"
        # HELP informant_calls_total Calls.
        # TYPE informant_calls_total counter
        informant_calls_total 0
        # HELP informant_depth Depth.
        # TYPE informant_depth gauge
        informant_depth 0
        # HELP informant_lag_seconds Lag.
        # TYPE informant_lag_seconds histogram
        informant_lag_seconds_sum 0.7
        informant_lag_seconds_count 1
        informant_lag_seconds_bucket{le="0.5"} 0
        informant_lag_seconds_bucket{le="1.0"} 1
        informant_lag_seconds_bucket{le="+Inf"} 1
        # HELP informant_build_info Build.
        # TYPE informant_build_info gauge
        informant_build_info{version="1 # \"x\""} 1
        # HELP informant_size_bytes Size.
        # TYPE informant_size_bytes gauge
        informant_size_bytes 0
        "##);
        assert_eq!(MetricsFormat::OpenMetrics.convert(openmetrics.clone()), openmetrics);
        assert!(openmetrics.ends_with("# EOF\n"));
    }

    #[test]
    fn openmetrics_is_only_for_clients_that_prefer_it() {
        let accepted = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            MetricsFormat::accepted(&headers)
        };
        assert_eq!(MetricsFormat::accepted(&HeaderMap::new()), MetricsFormat::Text);
        for text in [
            "*/*",
            "text/plain",
            "text/html, */*;q=0.8",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.2,text/plain;version=0.0.4;q=0.5",
            "application/vnd.google.protobuf",
        ] {
            assert_eq!(accepted(text), MetricsFormat::Text, "{text}");
        }
        for openmetrics in [
            "application/openmetrics-text",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.2",
        ] {
            assert_eq!(accepted(openmetrics), MetricsFormat::OpenMetrics, "{openmetrics}");
        }
    }
}
