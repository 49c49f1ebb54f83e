import pytest

from quantdrift.models import hub


def test_the_unit_suits_the_download():
    gigabytes = [hub._bytes(count, 6_400_000_000) for count in (0, 1_234_567_890)]
    assert gigabytes == ["0.0 GB", "1.2 GB"]
    assert hub._bytes(500_000_000, 500_000_000) == "0.5 GB"
    assert hub._bytes(3, 3) == "0.0 kB"


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["a.safetensors", "b.safetensors"], ["a.safetensors", "b.safetensors"]),
        (["a.safetensors", "model.safetensors", "x/model.safetensors"], ["model.safetensors"]),
        (["pytorch_model-1.bin", "training_args.bin", "a.md"], ["pytorch_model-1.bin"]),
        (["consolidated.safetensors", "config.json"], []),
    ],
)
def test_of_a_model_one_set_of_weights_is_chosen(names, chosen):
    assert hub._Repository("a/b", "main", "model", None).choose(names) == chosen
