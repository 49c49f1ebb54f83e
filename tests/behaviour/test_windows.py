import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdrift.behaviour.windows import token_hash, windows


def test_without_overlap_every_token_but_the_first_of_each_window_counts():
    cut = windows(range(10), length=4, stride=4, context=1, bos=None)
    assert [window.token_ids for window in cut] == [(0, 1, 2, 3), (4, 5, 6, 7)]  # 8, 9: the tail
    assert [window.first for window in cut] == [1, 1]


def test_overlapping_windows_count_a_token_once():
    """CHMC's protocol on paper: windows of 4 every 2; the second scores its last two tokens."""
    cut = windows(range(8), length=4, stride=2, context=1, bos=None)
    scored = [window.token_ids[window.first :] for window in cut]
    assert scored == [(1, 2, 3), (4, 5), (6, 7)]


def test_bos_stands_in_front_and_may_predict_the_first_token():
    (window,) = windows(range(5, 9), length=4, stride=4, context=0, bos=1)
    assert (window.token_ids, window.first, window.n_scored) == ((1, 5, 6, 7, 8), 1, 4)


def test_half_a_window_as_context():
    cut = windows(range(8), length=4, stride=4, context=2, bos=None)
    assert [window.token_ids[window.first :] for window in cut] == [(2, 3), (6, 7)]


@given(
    n=st.integers(12, 60),
    length=st.integers(4, 12),
    stride=st.integers(1, 12),
    context=st.integers(1, 3),
)
def test_no_token_counts_twice(n, length, stride, context):
    cut = windows(range(n), length=length, stride=stride, context=context, bos=None)
    scored = [token for window in cut for token in window.token_ids[window.first :]]
    assert len(set(scored)) == len(scored)


def test_a_short_text_says_how_much_it_lacks():
    with pytest.raises(ValueError, match="has 3 tokens, and one window needs 4"):
        windows(range(3), length=4, stride=4, context=1, bos=None)


def test_nothing_predicts_the_first_token_without_bos():
    with pytest.raises(ValueError, match="without BOS nothing predicts"):
        windows(range(4), length=4, stride=4, context=0, bos=None)


def test_the_hash_knows_tokens_and_what_counts():
    def of(ids, **changes):
        return token_hash(windows(ids, **{"length": 4, "stride": 4, "context": 1} | changes))

    same = of(range(8), bos=None)
    assert same == of(range(8), bos=None)
    others = [of(range(1, 9), bos=None), of(range(8), bos=0), of(range(8), context=2, bos=None)]
    assert len({same, *others}) == 4
