//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::columns::{SORTS, SortBy};

/// What the user has chosen to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) sort: SortBy,
    pub(super) is_reversed: bool,
    /// Which table arrows scroll. A small screen shows only this one.
    pub(super) focus: Pane,
    /// The first row that is shown of each table.
    pub(super) plugins_from: usize,
    pub(super) sources_from: usize,
    /// How many rows of the focused table are on the screen: a page. Set when it is drawn.
    pub(super) page: usize,
    pub(super) with_help: bool,
}

/// One of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Plugins,
    Sources,
}

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Redraw,
    /// All of it, because something else may have written on the screen.
    Repaint,
    Quit,
    Nothing,
}

/// The keys, for the help.
pub(super) const HELP: [(&str, &str); 11] = [
    ("q Esc Ctrl-C", "quit"),
    ("s > / <", "sort by the next / previous column"),
    ("c u l m", "sort by calls, CPU, lag, memory"),
    ("e p n", "sort by effects, pending, name"),
    ("r", "reverse the order"),
    ("Tab", "plugins or sources"),
    ("Up Down j k", "scroll by a row"),
    ("PgUp PgDn", "scroll by a page"),
    ("Home End", "to the first, to the last"),
    ("Ctrl-L", "draw the screen again"),
    ("?", "this help; any key closes it"),
];

impl View {
    pub(super) fn new((sort, is_reversed): (SortBy, bool)) -> View {
        View {
            sort,
            is_reversed,
            focus: Pane::Plugins,
            plugins_from: 0,
            sources_from: 0,
            page: 1,
            with_help: false,
        }
    }

    pub(super) fn order(&self) -> (SortBy, bool) {
        (self.sort, self.is_reversed)
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if with_control => return Action::Quit,
            KeyCode::Char('l') if with_control => return Action::Repaint,
            KeyCode::Char('q') => return Action::Quit,
            _ if std::mem::take(&mut self.with_help) => return Action::Redraw,
            KeyCode::Esc => return Action::Quit,
            _ if with_control => return Action::Nothing,
            KeyCode::Char('?') => self.with_help = true,
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('s' | '>') => self.sort = self.sort.further(1),
            KeyCode::Char('<') => self.sort = self.sort.further(SORTS.len() - 1),
            KeyCode::Tab | KeyCode::BackTab => {
                self.focus = match self.focus {
                    Pane::Plugins => Pane::Sources,
                    Pane::Sources => Pane::Plugins,
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.scroll(|from, _| from.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(|from, _| from.saturating_add(1)),
            KeyCode::PageUp => self.scroll(usize::saturating_sub),
            KeyCode::PageDown => self.scroll(usize::saturating_add),
            KeyCode::Home => self.scroll(|_, _| 0),
            // Drawing limits it to the last page.
            KeyCode::End => self.scroll(|_, _| usize::MAX),
            KeyCode::Char(letter) => match SORTS.into_iter().find(|sort| sort.key() == letter) {
                Some(sort) => self.sort = sort,
                None => return Action::Nothing,
            },
            _ => return Action::Nothing,
        }
        Action::Redraw
    }

    /// `to` makes the first row that is shown of the one before, and of the rows of a page.
    fn scroll(&mut self, to: impl Fn(usize, usize) -> usize) {
        let page = self.page;
        let from = self.first_row(self.focus);
        *from = to(*from, page);
    }

    pub(super) fn first_row(&mut self, pane: Pane) -> &mut usize {
        match pane {
            Pane::Plugins => &mut self.plugins_from,
            Pane::Sources => &mut self.sources_from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View::new((SortBy::Calls, false))
    }

    fn press(view: &mut View, code: KeyCode) -> Action {
        view.press(KeyEvent::from(code))
    }

    #[test]
    fn letters_and_arrows_change_the_sort() {
        let mut view = view();
        let mut after = |letter| {
            assert_eq!(press(&mut view, KeyCode::Char(letter)), Action::Redraw);
            view.order()
        };
        assert_eq!(after('u'), (SortBy::Cpu, false));
        assert_eq!(after('s'), (SortBy::Lag, false));
        assert_eq!(after('<'), (SortBy::Cpu, false));
        assert_eq!(after('r'), (SortBy::Cpu, true));
        assert_eq!(after('n'), (SortBy::Name, true));
        assert_eq!(press(&mut view, KeyCode::Char('x')), Action::Nothing);
    }

    #[test]
    fn q_escape_and_control_c_quit() {
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        for key in [KeyCode::Char('q').into(), KeyCode::Esc.into(), control('c')] {
            assert_eq!(view().press(key), Action::Quit);
        }
        assert_eq!(view().press(control('l')), Action::Repaint);
        assert_eq!(view().press(control('u')), Action::Nothing);
    }

    #[test]
    fn any_key_closes_the_help_and_does_nothing_else() {
        let mut view = view();
        press(&mut view, KeyCode::Char('?'));
        assert!(view.with_help);
        assert_eq!(press(&mut view, KeyCode::Esc), Action::Redraw);
        assert_eq!(view, self::view());
    }

    #[test]
    fn arrows_scroll_the_table_in_focus() {
        let mut view = view();
        view.page = 10;
        press(&mut view, KeyCode::Down);
        press(&mut view, KeyCode::PageDown);
        press(&mut view, KeyCode::Tab);
        press(&mut view, KeyCode::End);
        assert_eq!((view.plugins_from, view.sources_from), (11, usize::MAX));
        press(&mut view, KeyCode::Home);
        press(&mut view, KeyCode::Up);
        assert_eq!((view.plugins_from, view.sources_from), (11, 0));
    }
}
