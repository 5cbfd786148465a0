//! The ratios of the tables as bars: what the peers need, divided by what Informant needs.
//!
//! The tables are read as they are written, in a report or on the documentation's page, so that a chart has the numbers
//! of its tables.

use crate::pictures::Drawing;

/// The paragraph above a table of ratios contains this.
pub(super) const INTRODUCTION: &str = "he peer's figure divided by Informant's";

const WIDTH: u32 = 800;
const MARGIN: f64 = 20.0;
/// Where bars begin and end; right of them are their values.
const LEFT: f64 = 180.0;
const RIGHT: f64 = 730.0;
const ROW_HEIGHT: f64 = 17.0;
const BAR_HEIGHT: f64 = 11.0;
/// From the line that text stands on to the middle of a bar.
const MIDDLE: f64 = 4.5;

const STYLE: &str = "    .name { text-anchor: end }
    .tick { text-anchor: middle }
";

/// A ratio as it is written and as a number. None: not measured.
type Ratio = Option<(String, f64)>;

/// A table of ratios, under a heading.
#[derive(Debug, PartialEq)]
struct Ratios {
    heading: String,
    peers: Vec<String>,
    /// A figure, and its ratio for each peer.
    figures: Vec<(String, Vec<Ratio>)>,
}

/// The scale of the bars: it is logarithmic, as ratios go from 1 to more than 100.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    fn of(tables: &[Ratios]) -> Self {
        let figures = tables.iter().flat_map(|table| &table.figures);
        let ratios = figures.flat_map(|(_, ratios)| ratios.iter().flatten());
        let (mut least, mut most) = (1.0, 10.0);
        for (_, ratio) in ratios {
            while *ratio < least {
                least /= 10.0;
            }
            most = f64::max(most, *ratio);
        }
        Self { least, most }
    }

    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio / self.least).ln() / (self.most / self.least).ln();
        tenths(LEFT + share * (RIGHT - LEFT))
    }

    /// Powers of ten.
    fn ticks(&self) -> Vec<f64> {
        let powers = std::iter::successors(Some(self.least), |power| Some(power * 10.0));
        powers.take_while(|power| *power <= self.most).collect()
    }
}

/// A chart of the tables of ratios in a text in Markdown. None: it has none.
pub(super) fn of_tables(markdown: &str) -> Option<String> {
    let tables = read(markdown);
    if tables.is_empty() {
        return None;
    }
    let mut drawing = Drawing::new("What the peers need, divided by what Informant needs", WIDTH, STYLE);
    let scale = Scale::of(&tables);
    let mut y = MARGIN + ROW_HEIGHT / 2.0;
    for table in &tables {
        draw(table, &scale, &mut drawing, &mut y);
    }
    Some(drawing.finish(y - ROW_HEIGHT))
}

/// Draws one table below `y`, and moves `y` below it.
fn draw(table: &Ratios, scale: &Scale, drawing: &mut Drawing, y: &mut f64) {
    let heading = format!("{}: times Informant's, on a logarithmic scale", table.heading);
    drawing.text(MARGIN, *y, "class=\"title\"", &heading);
    *y += 1.5 * ROW_HEIGHT;
    let rows: usize = table
        .figures
        .iter()
        .map(|(_, ratios)| 1 + ratios.iter().flatten().count())
        .sum();
    let bottom = *y + (rows as f64 + 0.5 * table.figures.len() as f64) * ROW_HEIGHT + MIDDLE;
    for tick in scale.ticks() {
        let x = scale.x(tick);
        drawing.text(x, *y, "class=\"note tick\"", &format!("{tick} ×"));
        drawing.element(&format!("<path class=\"line\" d=\"M{x} {} V{bottom}\"/>", *y + MIDDLE));
    }
    for (figure, ratios) in &table.figures {
        *y += 1.5 * ROW_HEIGHT;
        drawing.text(MARGIN, *y, "", figure);
        for (peer, ratio) in table.peers.iter().zip(ratios) {
            if let Some((written, ratio)) = ratio {
                *y += ROW_HEIGHT;
                bar(peer, written, *ratio, scale, drawing, *y);
            }
        }
    }
    *y += 2.0 * ROW_HEIGHT;
}

/// A bar from 1, where both need the same.
fn bar(peer: &str, written: &str, ratio: f64, scale: &Scale, drawing: &mut Drawing, y: f64) {
    drawing.text(LEFT - 8.0, y, "class=\"note name\"", peer);
    let (one, end) = (scale.x(1.0), scale.x(ratio));
    let (x, width) = (one.min(end), tenths((one - end).abs()));
    let class = if peer.starts_with("client-go") {
        "accent"
    } else {
        "other"
    };
    let top = y - MIDDLE - BAR_HEIGHT / 2.0;
    drawing.element(&format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{top}\" width=\"{width}\" height=\"{BAR_HEIGHT}\"/>"
    ));
    drawing.text(tenths(one.max(end) + 6.0), y, "", written);
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// All tables of ratios.
fn read(markdown: &str) -> Vec<Ratios> {
    let mut tables = Vec::new();
    let mut heading = String::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("## ") {
            text.clone_into(&mut heading);
        }
        if !line.contains(INTRODUCTION) {
            continue;
        }
        let table = lines.by_ref().skip_while(|line| !line.starts_with('|'));
        let mut rows = table.take_while(|line| line.starts_with('|')).map(cells);
        let peers = rows
            .next()
            .unwrap_or_default()
            .into_iter()
            .skip(1)
            .map(str::to_owned)
            .collect();
        let figures = rows.skip(1).map(|cells| {
            let (figure, ratios) = cells.split_first().unwrap_or((&"", &[]));
            ((*figure).to_owned(), ratios.iter().map(|cell| ratio(cell)).collect())
        });
        tables.push(Ratios {
            heading: heading.clone(),
            peers,
            figures: figures.collect(),
        });
    }
    tables
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The number at the beginning of a cell, which its target may follow.
fn ratio(cell: &str) -> Ratio {
    let number = cell.split_whitespace().next()?;
    Some((number.to_owned(), number.parse().ok().filter(|ratio| *ratio > 0.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{guests, pictures};

    const TABLES: &str = "## 20,000 pods\n\n| | other |\n|---|---|\n| sync | 3 |\n\n\
        Ratios: the peer's figure divided by Informant's:\n\n\
        | | client-go LIST | kube-rs LIST |\n|---|---|---|\n\
        | sync & list | 17.2 (at least 8: met) | 0.5 |\n| relist | 137 | – |\n\nText.\n";

    #[test]
    fn each_ratio_of_a_table_is_a_bar() {
        let chart = of_tables(TABLES).unwrap();
        let (_, elements) = chart.split_once("</style>\n").unwrap();
        insta::assert_snapshot!(elements, @r#"
          <rect class="panel" x="0.5" y="0.5" width="799" height="172" rx="8"/>
          <text class="title" x="20" y="28.5">20,000 pods: times Informant's, on a logarithmic scale</text>
          <text class="note tick" x="180" y="54">0.1 ×</text>
          <path class="line" d="M180 58.5 V160.5"/>
          <text class="note tick" x="355.3" y="54">1 ×</text>
          <path class="line" d="M355.3 58.5 V160.5"/>
          <text class="note tick" x="530.7" y="54">10 ×</text>
          <path class="line" d="M530.7 58.5 V160.5"/>
          <text class="note tick" x="706" y="54">100 ×</text>
          <path class="line" d="M706 58.5 V160.5"/>
          <text x="20" y="79.5">sync &amp; list</text>
          <text class="note name" x="172" y="96.5">client-go LIST</text>
          <rect class="accent" x="355.3" y="86.5" width="216.7" height="11"/>
          <text x="578" y="96.5">17.2</text>
          <text class="note name" x="172" y="113.5">kube-rs LIST</text>
          <rect class="other" x="302.6" y="103.5" width="52.7" height="11"/>
          <text x="361.3" y="113.5">0.5</text>
          <text x="20" y="139">relist</text>
          <text class="note name" x="172" y="156">client-go LIST</text>
          <rect class="accent" x="355.3" y="146" width="374.7" height="11"/>
          <text x="736" y="156">137</text>
        </svg>
        "#);
        assert_eq!(of_tables("## Nothing\n"), None);
    }

    #[test]
    fn chart_of_the_page_has_the_numbers_of_its_table() {
        let page = guests::workspace_folder().join("docs/explanation/performance.md");
        let chart = of_tables(&std::fs::read_to_string(page).unwrap()).unwrap();
        pictures::check("performance-ratios.svg", &chart, |there, drawn| there == drawn).unwrap();
    }
}
