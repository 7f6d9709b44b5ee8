"""Tokens of sequences of different lengths, one sequence behind the other.

Letters in shapes: t tokens of all sequences, l steps, b sequences.
"""

from __future__ import annotations

from converter.from_onnx.translation.context import Context
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, concat, positions


@record
class Rows:
    """Tokens ``[t, ...]`` of all sequences as rows of steps ``[l, b, ...]``, and back."""

    batches: Expression
    places: Expression | None = None
    """``[l, b]``: the token of each step; None where all sequences have the same length."""
    active: Expression | None = None
    """``[l, b]``: whether the sequence has the step."""
    own: Expression | None = None
    """``[t, 2]``: the step and the sequence of each token."""

    @classmethod
    def of(cls, ctx: Context, tokens: Expression, starts: Expression | None, state: Expression | None) -> Rows:
        """``starts`` has one number more than there are sequences; ``state`` has their number where it is missing."""
        if starts is None:
            if state is None:
                raise ctx.invalid("without cu_seqlens the input initial_state is required, but missing")
            return cls(state.size(0))
        count = tokens.size(0)
        ends = starts.as_type("i64")
        first, behind = ends.cut(0, 0, -1), ends.cut(0, 1)
        lengths = behind - first
        steps = positions(lengths.max(0)).unsqueeze(1)
        places = (first + steps).minimum(count - 1)
        numbers = positions(count)
        sequence = (behind <= numbers.unsqueeze(1)).as_type("i64").sum(1)
        own = concat([(numbers - first.gather(sequence)).unsqueeze(1), sequence.unsqueeze(1)], 1)
        return cls(lengths.size(0), places, steps < lengths, own)

    def lengths(self) -> Expression:
        """The number of steps of each sequence."""
        assert self.active is not None
        return self.active.as_type("i64").sum(0)

    def split(self, tokens: Expression) -> Expression:
        if self.places is not None:
            return tokens.gather(self.places)
        rest = tokens.sizes()[1:]
        return tokens.reshape(self.batches, -1, *rest).transpose(1, 0, *range(2, 2 + len(rest)))

    def join(self, steps: Expression) -> Expression:
        if self.own is not None:
            return steps.gather_nd(self.own)
        rest = steps.sizes()[2:]
        return steps.transpose(1, 0, *range(2, steps.rank)).reshape(-1, *rest)
