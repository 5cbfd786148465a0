//! The benchmark's figures, their medians, and how they are written.

use std::fmt;

/// What one run of one subject over one number of objects came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) objects: f64,
    /// CPU in all of the sync, in microseconds, the start of the process taken off: for the slope between two sizes.
    pub(super) sync_cpu_us: f64,
    pub(super) sync_us: f64,
    pub(super) burst_event_us: f64,
    /// Events a second, in bursts.
    pub(super) burst_rate: f64,
    /// The share of one core that the subject used in bursts. Well below 1, something else was the limit.
    pub(super) burst_busy: f64,
    pub(super) single_event_us: f64,
    pub(super) relist_us: f64,
    pub(super) lag_p50_us: f64,
    pub(super) lag_p99_us: f64,
    pub(super) base_bytes: f64,
    pub(super) steady_bytes: f64,
    pub(super) updated_bytes: f64,
    pub(super) peak_bytes: f64,
}

impl Figures {
    /// Each figure's median.
    pub(super) fn median(all: &[Figures]) -> Figures {
        let median = |pick: fn(&Figures) -> f64| {
            let mut values: Vec<f64> = all.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        Figures {
            objects: median(|figures| figures.objects),
            sync_cpu_us: median(|figures| figures.sync_cpu_us),
            sync_us: median(|figures| figures.sync_us),
            burst_event_us: median(|figures| figures.burst_event_us),
            burst_rate: median(|figures| figures.burst_rate),
            burst_busy: median(|figures| figures.burst_busy),
            single_event_us: median(|figures| figures.single_event_us),
            relist_us: median(|figures| figures.relist_us),
            lag_p50_us: median(|figures| figures.lag_p50_us),
            lag_p99_us: median(|figures| figures.lag_p99_us),
            base_bytes: median(|figures| figures.base_bytes),
            steady_bytes: median(|figures| figures.steady_bytes),
            updated_bytes: median(|figures| figures.updated_bytes),
            peak_bytes: median(|figures| figures.peak_bytes),
        }
    }

    /// CPU per object between two sizes: what starting up costs is in neither.
    pub(super) fn sync_slope_us(small: &Figures, large: &Figures) -> f64 {
        (large.sync_cpu_us - small.sync_cpu_us) / (large.objects - small.objects)
    }

    /// How often `own` goes into these.
    pub(super) fn ratios_to(&self, own: &Figures) -> String {
        let of = |pick: fn(&Figures) -> f64| pick(self) / pick(own);
        format!(
            "sync {:.1}, relist {:.1}, event in bursts {:.1}, one by one {:.1}, memory an object {:.1}, steady {:.1}, peak {:.1}, lag p99 {:.2}",
            of(|figures| figures.sync_us),
            of(|figures| figures.relist_us),
            of(|figures| figures.burst_event_us),
            of(|figures| figures.single_event_us),
            of(|figures| figures.per_object(figures.steady_bytes)),
            of(|figures| figures.steady_bytes),
            of(|figures| figures.peak_bytes),
            of(|figures| figures.lag_p99_us),
        )
    }

    fn per_object(&self, bytes: f64) -> f64 {
        (bytes - self.base_bytes) / self.objects
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: f64| bytes / 1e6;
        write!(
            f,
            "{:.0} pods: sync {:.2} us an object; events {:.2} us in bursts ({:.0}/s, {:.0} % of a core), {:.2} us one by one; \
             relist {:.2} us an object; lag p50 {:.0} us, p99 {:.0} us; memory {:.0} B an object ({:.1} MB, base {:.1}), \
             {:.0} B after updates, peak {:.1} MB = {:.2} x steady",
            self.objects,
            self.sync_us,
            self.burst_event_us,
            self.burst_rate,
            100.0 * self.burst_busy,
            self.single_event_us,
            self.relist_us,
            self.lag_p50_us,
            self.lag_p99_us,
            self.per_object(self.steady_bytes),
            mega(self.steady_bytes),
            mega(self.base_bytes),
            self.per_object(self.updated_bytes),
            mega(self.peak_bytes),
            self.peak_bytes / self.steady_bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_leaves_out_what_does_not_grow_with_the_objects() {
        let of = |objects: f64| Figures {
            objects,
            sync_cpu_us: 5_000.0 + 6.0 * objects,
            ..Figures::default()
        };
        assert!((Figures::sync_slope_us(&of(1_000.0), &of(3_000.0)) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn the_median_is_taken_figure_by_figure() {
        let of = |sync_us: f64, relist_us: f64| Figures {
            sync_us,
            relist_us,
            ..Figures::default()
        };
        let median = Figures::median(&[of(1.0, 9.0), of(2.0, 7.0), of(5.0, 8.0)]);
        assert_eq!((median.sync_us, median.relist_us), (2.0, 8.0));
    }
}
