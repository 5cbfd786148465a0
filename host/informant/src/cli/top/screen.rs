//! The screen that follows a daemon until a key or a signal ends it.

use std::io;

use anyhow::{Context as _, Result};
use crossterm::event::{Event, EventStream};
use futures::StreamExt as _;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};
use tokio::signal::unix::{SignalKind, signal};

use super::columns::{self, Column, OF_PLUGINS, OF_SOURCES, SortBy};
use super::head;
use super::keys::{Action, HELP, Pane, View};
use super::known::{Known, is_live};
use super::link::Link;
use super::terminal::Screen;
use crate::admin::PluginRow;
use crate::cli::Exit;
use crate::escape;
use crate::status_line::fit;

/// The narrowest first column: 20. Further columns are left out before it gets narrower.
const NAME_WIDTH_MIN: u16 = 20;

/// Both tables are shown if there are so many lines for them: 11. Otherwise only the one in focus.
const BOTH_HEIGHT_MIN: u16 = 11;

/// The line with keys is left out of a screen with fewer lines: 6.
const KEYS_HEIGHT_MIN: u16 = 6;

/// Follows the daemon on the screen.
pub(super) async fn follow(link: Link<'_>, order: (SortBy, bool), with_colors: bool) -> Result<Exit> {
    let (mut known, mut view) = (Known::default(), View::new(order));
    let mut updates = link.updates();
    let mut stop = Box::pin(stop_requested().context("cannot listen for signals")?);
    let mut screen = Screen::take().context("cannot use this terminal; `--iterations 1` prints a table")?;
    let mut events = EventStream::new();
    loop {
        let drawn = screen
            .terminal
            .draw(|frame| draw(frame, &known, &mut view, with_colors));
        drawn.context("cannot draw on the terminal")?;
        tokio::select! {
            biased;
            () = &mut stop => return Ok(Exit::Done),
            event = events.next() => match event {
                // The terminal is gone.
                None => return Ok(Exit::Done),
                Some(event) => match acted(event.context("cannot read keys")?, &mut view) {
                    Action::Quit => return Ok(Exit::Done),
                    Action::Repaint => screen.forget().context("cannot draw on the terminal")?,
                    Action::Redraw | Action::Nothing => {}
                },
            },
            Some(update) = updates.next() => known.apply(update)?,
        }
    }
}

fn acted(event: Event, view: &mut View) -> Action {
    match event {
        Event::Key(key) => view.press(key),
        _ => Action::Redraw,
    }
}

/// Ends when the process should.
fn stop_requested() -> io::Result<impl Future<Output = ()>> {
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
    let signals: Vec<_> = kinds.into_iter().map(signal).collect::<Result<_, _>>()?;
    Ok(async move {
        let mut signals = signals;
        let waits = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures::future::select_all(waits).await;
    })
}

/// Draws all of it. Where the view is beyond the end of a table, it is set to the last page.
pub(super) fn draw(frame: &mut Frame<'_>, known: &Known, view: &mut View, with_colors: bool) {
    let area = frame.area();
    let alert = head::alert(known);
    let head_height = 2 + u16::from(alert.is_some());
    let keys_height = u16::from(area.height >= KEYS_HEIGHT_MIN);
    let heights = [
        Constraint::Length(head_height),
        Constraint::Fill(1),
        Constraint::Length(keys_height),
    ];
    let [top, body, bottom] = Layout::vertical(heights).areas(area);
    let styles = Styles { with_colors };
    let lines = head::lines(known)
        .into_iter()
        .map(|line| Line::raw(fit(&line, area.width)));
    let alert = alert.map(|alert| Line::styled(fit(&alert, area.width), styles.alarm()));
    let lines: Vec<Line<'_>> = lines.chain(alert).collect();
    frame.render_widget(Text::from(lines), top);
    draw_tables(frame, body, known, view, &styles);
    frame.render_widget(Line::styled(fit(KEYS, area.width), styles.faint()), bottom);
    if view.with_help {
        draw_help(frame, area);
    }
}

const KEYS: &str = "q quit   s sort   r reverse   Tab plugins, sources   ? help";

/// How things are marked. No color alone has a meaning.
struct Styles {
    with_colors: bool,
}

impl Styles {
    fn alarm(&self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn faint(&self) -> Style {
        self.colored(Color::DarkGray)
    }

    fn colored(&self, color: Color) -> Style {
        match self.with_colors {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }
}

fn draw_tables(frame: &mut Frame<'_>, area: Rect, known: &Known, view: &mut View, styles: &Styles) {
    let (plugins, sources) = (known.plugins(view.order()), known.sources());
    let (of_plugins, of_sources) = match (area.height >= BOTH_HEIGHT_MIN, view.focus) {
        (true, _) => {
            // With its heading, and a line above.
            let rows = u16::try_from(sources.len()).unwrap_or(u16::MAX).saturating_add(2);
            let of_sources = rows.clamp(3, area.height / 3);
            let [one, other] = Layout::vertical([Constraint::Fill(1), Constraint::Length(of_sources)]).areas(area);
            let [_, other] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(other);
            (Some(one), Some(other))
        }
        (false, Pane::Plugins) => (Some(area), None),
        (false, Pane::Sources) => (None, Some(area)),
    };
    if let Some(area) = of_plugins {
        let shown = Shown {
            pane: Pane::Plugins,
            heading: "PLUGIN",
            rows: plugins,
            name: |row| row.name.clone(),
            is_well,
            columns: &OF_PLUGINS,
        };
        shown.draw(frame, area, view, styles);
    }
    if let Some(area) = of_sources {
        let shown = Shown {
            pane: Pane::Sources,
            heading: "SOURCE",
            rows: sources,
            name: columns::source,
            is_well: is_live,
            columns: &OF_SOURCES,
        };
        shown.draw(frame, area, view, styles);
    }
}

/// Whether the state of a plugin needs no look.
fn is_well(row: &PluginRow) -> bool {
    matches!(
        row.state.as_str(),
        "running" | "paused" | "standby" | "draining" | "loading"
    )
}

/// A table on the screen.
struct Shown<'k, R> {
    pane: Pane,
    heading: &'static str,
    rows: Vec<&'k R>,
    name: fn(&R) -> String,
    is_well: fn(&R) -> bool,
    columns: &'k [Column<R>],
}

impl<R> Shown<'_, R> {
    fn draw(self, frame: &mut Frame<'_>, area: Rect, view: &mut View, styles: &Styles) {
        let page = usize::from(area.height.saturating_sub(1));
        let is_focused = view.focus == self.pane;
        if is_focused {
            view.page = page;
        }
        let from = view.first_row(self.pane);
        *from = (*from).min(self.rows.len().saturating_sub(page));
        let from = *from;
        let columns = fitting(self.columns, area.width, self.sorted_by(view));
        let widths: Vec<u16> = columns.iter().map(|column| column.width).collect();
        let others: u16 = widths.iter().map(|width| width + 1).sum();
        let name_width = area.width.saturating_sub(others);
        let mut headings = vec![Cell::from(fit(&self.name_heading(view, from, page), name_width))];
        headings.extend(columns.iter().map(|column| cell(heading(column, view))));
        let row = |row: &&R| {
            let style = match (self.is_well)(row) {
                true => Style::new(),
                false => styles.alarm(),
            };
            let mut cells = vec![Cell::from(fit(&escape::line(&(self.name)(row)), name_width))];
            let others = columns.iter();
            cells.extend(others.map(|column| cell(fit(&escape::line(&(column.cell)(row)), column.width))));
            Row::new(cells).style(style)
        };
        let rows: Vec<Row<'_>> = self.rows.iter().skip(from).take(page).map(row).collect();
        let widths = std::iter::once(name_width).chain(widths).map(Constraint::Length);
        let marked = if is_focused {
            Modifier::REVERSED
        } else {
            Modifier::UNDERLINED
        };
        let headings = Row::new(headings).style(Style::new().add_modifier(marked));
        frame.render_widget(Table::new(rows, widths).header(headings), area);
    }

    fn sorted_by(&self, view: &View) -> Option<SortBy> {
        (self.pane == Pane::Plugins).then_some(view.sort)
    }

    /// `> PLUGIN 1-12/200`: whether arrows scroll it, and which rows are shown if not all are.
    fn name_heading(&self, view: &View, from: usize, page: usize) -> String {
        let focus = if view.focus == self.pane { "> " } else { "" };
        let mark = match self.sorted_by(view) {
            Some(SortBy::Name) => direction(!view.is_reversed),
            _ => "",
        };
        let total = self.rows.len();
        let range = match total > page {
            true => format!(" {}-{}/{total}", from + 1, (from + page).min(total)),
            false => String::new(),
        };
        format!("{focus}{}{mark}{range}", self.heading)
    }
}

/// The columns that fit next to the name, in their order: the one that sorts first, then by rank.
fn fitting<R>(columns: &[Column<R>], width: u16, sort: Option<SortBy>) -> Vec<&Column<R>> {
    let mut by_rank: Vec<(usize, &Column<R>)> = columns.iter().enumerate().collect();
    by_rank.sort_by_key(|(_, column)| (sort.is_none() || column.sort != sort, column.rank));
    let mut left = width.saturating_sub(NAME_WIDTH_MIN);
    let mut chosen = Vec::new();
    for (at, column) in by_rank {
        let Some(rest) = left.checked_sub(column.width + 1) else {
            break;
        };
        left = rest;
        chosen.push((at, column));
    }
    chosen.sort_by_key(|(at, _)| *at);
    chosen.into_iter().map(|(_, column)| column).collect()
}

fn heading<R>(column: &Column<R>, view: &View) -> String {
    let mark = match column.sort {
        Some(sort) if sort == view.sort => direction(view.is_reversed),
        _ => "",
    };
    format!("{}{mark}", column.heading)
}

/// An arrow down: the largest is the first.
fn direction(is_rising: bool) -> &'static str {
    if is_rising { "▲" } else { "▼" }
}

/// Numbers, and the states above them, end at the right.
fn cell(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).alignment(Alignment::Right))
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = HELP
        .into_iter()
        .map(|(keys, what)| Line::raw(format!(" {keys:<13} {what} ")))
        .collect();
    let width = lines.iter().map(Line::width).max().unwrap_or_default() + 2;
    let (width, height) = (u16::try_from(width).unwrap_or(u16::MAX), HELP.len() as u16 + 2);
    let area = area.centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), area);
}
