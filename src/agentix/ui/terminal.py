"""`agentix top`: the process table in a terminal."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from agentix.ui.columns import COLUMNS, summary
from agentix.ui.feed import SORTS, Feed, GatewayFault, Program

_PERIOD_S = 1.0
MAX_ROWS = 300  # of the sorted programs: what nobody scrolls through, but filters


class Confirm(ModalScreen[bool]):
    """Asks about one thing: y does it, everything else does not."""

    CSS = """
    Confirm { align: center middle; }
    Confirm > Vertical { width: auto; max-width: 70; height: auto; padding: 1 2; border: round $accent; background: $surface; }
    Confirm Static { width: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q,enter", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question and the keys."""
        with Vertical():
            yield Static(self._question, markup=False)
            yield Static("y: yes   n: no", markup=False)

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)


class Top(App[None]):
    """The table, sorted and filtered, once a second; keys act on the row under the cursor."""

    CSS = """
    #summary { height: 1; padding: 0 1; background: $panel; }
    #filter { display: none; }
    #filter.open { display: block; }
    DataTable { height: 1fr; }
    """
    TITLE = "agentix top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("p", "steer('pause')", "Pause"),
        Binding("r", "steer('resume')", "Resume"),
        Binding("c", "steer('cancel')", "Cancel calls"),
        Binding("slash", "filter", "Filter"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "close_filter", "Close the filter", show=False),
    ]

    def __init__(self, feed: Feed, *, period_s: float = _PERIOD_S) -> None:
        super().__init__()
        self._feed = feed
        self._period_s = period_s
        self._sort = next(iter(SORTS))
        self._words = ""
        self._fault = ""
        self._shown: list[Program] = []
        # Kept here because `query_one` asks the screen in front, which may be a question.
        self._summary = Static("connecting", id="summary", markup=False)
        self._table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
        self._filter = Input(placeholder="words in program, class, engine or state; Enter keeps them", id="filter")

    def compose(self) -> ComposeResult:
        """A line of totals, the table, the filter, the keys."""
        yield from (self._summary, self._table, self._filter, Footer())

    def on_mount(self) -> None:
        """Begin to ask."""
        for column in COLUMNS:
            self._table.add_column(column.label, key=column.label)
        self._table.focus()
        self._poll()
        self.set_interval(self._period_s, self._poll)

    def _poll(self) -> None:
        if not any(worker.group == "poll" and not worker.is_finished for worker in self.workers):
            self.run_worker(self._bring(), group="poll")

    async def _bring(self) -> None:
        try:
            await self._feed.poll()
            self._fault = ""
        except GatewayFault as fault:
            self._fault = str(fault)
        self._draw()

    def _draw(self) -> None:
        now_s, table = self._feed.now_s(), self._table
        chosen = self._chosen()
        programs = list(self._feed.shown(self._words, sort=self._sort))
        self._shown = programs[:MAX_ROWS]
        top = table.scroll_y
        table.clear()
        for program in self._shown:
            table.add_row(*(column.cell(program, now_s) for column in COLUMNS))
        places = [i for i, p in enumerate(self._shown) if chosen and (p.tenant, p.id) == (chosen.tenant, chosen.id)]
        table.move_cursor(row=places[0] if places else 0, scroll=False)
        table.scroll_to(y=top, animate=False)
        text = self._fault or summary(self._feed, num_shown=len(programs), sort=self._sort, words=self._words)
        self._summary.update(text)

    def _chosen(self) -> Program | None:
        row = self._table.cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def action_sort(self) -> None:
        """Sort by the next column that can be sorted by."""
        names = list(SORTS)
        self._sort = names[(names.index(self._sort) + 1) % len(names)]
        self._draw()

    def action_filter(self) -> None:
        """Open the filter."""
        self._filter.add_class("open")
        self._filter.focus()

    def action_close_filter(self) -> None:
        """Drop the filter."""
        self._filter.value = ""
        self._leave_filter()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self._words = event.value
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and go back to the table."""
        self._leave_filter()

    def _leave_filter(self) -> None:
        self._filter.remove_class("open")
        self._table.focus()

    def action_steer(self, name: str) -> None:
        """Do it to the chosen program; what cannot be taken back is asked about first."""
        program = self._chosen()
        if program is None:
            return
        if name == "cancel":
            question = f"Cancel the {program.num_calls} active call(s) of {program.id}?"
            self.push_screen(Confirm(question), lambda yes: self._steer(name, program) if yes else None)
        else:
            self._steer(name, program)

    def _steer(self, name: str, program: Program) -> None:
        async def run() -> None:
            try:
                await self._feed.act(name, program)
                self.notify(f"{name}: {program.id}", markup=False)
            except GatewayFault as fault:
                self.notify(str(fault), severity="error", markup=False)
            await self._bring()

        self.run_worker(run(), group="steer")
