//! Durations as kubectl prints them. Source: apimachinery `util/duration.HumanDuration`.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// `45s`, `2m3s`, `15m`, `3h7m`, `9h`, `2d4h`, `30d`, `2y3d`, `9y`.
pub fn human(seconds: i64) -> String {
    let two = |first: i64, first_unit: &str, second: i64, second_unit: &str| {
        if second == 0 {
            format!("{first}{first_unit}")
        } else {
            format!("{first}{first_unit}{second}{second_unit}")
        }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        let ages = [
            0,
            119,
            120,
            599,
            600,
            10_799,
            10_800,
            28_799,
            28_800,
            172_800,
            176_400,
            691_200,
            YEAR * 2 + DAY,
            YEAR * 9,
            -2,
            -1,
        ];
        let printed: Vec<String> = ages.into_iter().map(human).collect();
        insta::assert_snapshot!(printed.join(" "), @"0s 119s 2m 9m59s 10m 179m 3h 7h59m 8h 2d 2d1h 8d 2y1d 9y <invalid> 0s");
    }
}
