"""What one worker shows: its metric, its state, and the line to change."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from elastune.checks.report import CheckFinding, CheckStatus, CodePlace, failed
from tests.checks.looking import SUBJECTS, look_at

FINE, NOTE, WARNING, FAILED = CheckStatus


def line_of(finding: CheckFinding) -> str:
    assert finding.place is not None
    assert finding.place.file == str(SUBJECTS)
    assert finding.place.code == linecache.getline(str(SUBJECTS), finding.place.line).strip()
    return finding.place.code


def test_a_right_trainable_continues_bit_for_bit(tmp_path: Path) -> None:
    seen, found = look_at("good", tmp_path)
    assert {each.status for each in found.values()} == {FINE}
    assert "bit for bit" in found["save and load"].text
    assert "accuracy is reported" in found["metric"].text
    assert "done" in found["metric"].text
    assert seen.solo is not None
    assert len(seen.solo.rows) == 2


def test_a_metric_that_is_not_reported_is_named_with_what_is(tmp_path: Path) -> None:
    finding = look_at("other_metric", tmp_path)[1]["metric"]
    assert finding.status is FAILED
    assert "{'acc': 0.5, 'loss': 1.0}" in finding.text
    assert "'accuracy'" in finding.text
    assert line_of(finding).startswith('yield {"acc"')
    assert finding.remedy is not None
    assert "write yield {'accuracy': value}, or as `metric` into the job one of: acc, loss" in finding.remedy


@pytest.mark.parametrize(("name", "line"), [("forgets_to_return", "def "), ("as_text", "return {")])
def test_what_is_no_number_is_named_with_the_line_that_reports(name: str, line: str, tmp_path: Path) -> None:
    finding = look_at(name, tmp_path)[1]["metric"]
    assert finding.status is FAILED
    assert line_of(finding).startswith(line)
    assert finding.remedy == "write return {'accuracy': value}"


def test_what_an_adapter_reports_is_listed_where_the_metric_is_another(tmp_path: Path) -> None:
    """Its user writes no `return` of metrics."""
    finding = look_at("BOOSTED", tmp_path)[1]["metric"]
    assert finding.status is FAILED
    assert finding.place is None
    assert finding.remedy == "write as `metric` into the job one of: logloss, auc"


def test_a_metric_that_is_not_finite_fails(tmp_path: Path) -> None:
    seen, found = look_at("diverges", tmp_path)
    assert found["metric"].status is FAILED
    assert "accuracy is nan after iteration 1" in found["metric"].text
    assert seen.solo is not None
    assert seen.solo.diverged


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("starts_again", "the saved state is never read", "def starts_again("),
        ("LoadsNothing", "load restores nothing of the saved state", "def load("),
    ],
)
def test_a_trainable_that_ignores_its_state_is_refused_at_the_line_that_should_read_it(
    tmp_path: Path, name: str, text: str, line: str
) -> None:
    """Its trials would start again at each pause, while the run claims their iterations."""
    finding = look_at(name, tmp_path)[1]["save and load"]
    assert finding.status is FAILED
    assert text in finding.text
    assert "starts again from nothing" in finding.text
    assert line_of(finding).startswith(line)
    assert finding.remedy is not None
    assert "load_state_dict" in finding.remedy


def test_a_state_that_is_saved_and_ignored_is_told_at_the_line_of_the_function(tmp_path: Path) -> None:
    """It was advised to yield save, which it does."""
    finding = look_at("ignores_state", tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert "`state` is ignored" in finding.text
    assert "trains again from its beginning" in finding.text
    assert line_of(finding).startswith("def ignores_state(")
    assert finding.remedy is not None
    assert "if state is not None" in finding.remedy
    assert "yield" not in finding.remedy


def test_a_generator_that_yields_metrics_alone_is_told_that_it_repeats(tmp_path: Path) -> None:
    finding = look_at("reports_only", tmp_path)[1]["save and load"]
    assert finding.status is NOTE
    assert "cannot be saved" in finding.text


def test_what_load_forgets_is_named(tmp_path: Path) -> None:
    finding = look_at("ForgetsMomentum", tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert "load does not restore optimizer.momentum" in finding.text
    assert line_of(finding).startswith("def load(")


def test_an_optimizer_that_is_not_saved_is_named(tmp_path: Path) -> None:
    finding = look_at("saves_no_optimizer", tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert "The state has nothing of opt: its momentum and the like are lost at each pause" in finding.text
    assert finding.remedy == "save opt.state_dict() with the model, and load it again"


def test_values_that_refuse_to_be_looked_at_are_left_alone(tmp_path: Path) -> None:
    assert all(finding.status is FINE for finding in look_at("with_a_proxy", tmp_path)[1].values())


@pytest.mark.parametrize("name", ["unseeded", "UnseededClass"])
def test_numbers_that_cannot_be_repeated_are_told_and_not_refused(name: str, tmp_path: Path) -> None:
    finding = look_at(name, tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert "differs from one without a pause: accuracy is" in finding.text
    assert "a random generator of its own), or it is not deterministic" in finding.text


@pytest.mark.parametrize(
    ("name", "missing", "remedy"),
    [
        ("OwnGenerator", "self.source is not as before after a pause", "save self.source"),
        ("ForgetsAverage", "self.average is not as before after a pause", "save self.average"),
        ("average_of_a_function", "average is not as before after a pause", "save average"),
        ("ForgetsMode", "the mode (train or eval) of self.model is not as before", "self.model.train()"),
        ("KeepsGradients", "the gradients that the one before it left in self.model", "zero_grad()"),
    ],
)
def test_what_is_in_no_part_of_the_state_is_named(
    name: str, missing: str, remedy: str, tmp_path: Path
) -> None:
    finding = look_at(name, tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert missing in finding.text
    assert finding.remedy is not None
    assert remedy in finding.remedy


def test_what_starts_again_without_a_difference_so_far_is_noted(tmp_path: Path) -> None:
    finding = look_at("ForgetsScaler", tmp_path)[1]["save and load"]
    assert finding.status is NOTE
    assert "only self.scaler starts again at each pause" in finding.text


def test_an_optimizer_of_a_model_that_load_has_replaced_is_refused(tmp_path: Path) -> None:
    finding = look_at("TrainsAnother", tmp_path)[1]["save and load"]
    assert finding.status is FAILED
    assert "after load, self.optimizer trains a model that is not there any more" in finding.text
    assert finding.place is not None
    assert finding.place.code == "def load(self, state: State) -> None:"


def test_a_hyperparameter_under_another_name_is_told(tmp_path: Path) -> None:
    finding = look_at("other_name", tmp_path)[1]["space"]
    assert finding.status is WARNING
    assert "never read config['lr'], and looked for 'learning_rate'" in finding.text


def test_hyperparameters_that_are_not_read_are_told(tmp_path: Path) -> None:
    finding = look_at("shuffles", tmp_path)[1]["space"]
    assert finding.status is WARNING
    assert "read none of its hyperparameters (config['lr']): all trials train the same" in finding.text
    configs = ({"lr": 0.1, "momentum": 0.9},)
    finding = look_at("other_name", tmp_path, configs=configs)[1]["space"]
    assert "never read config['lr'], config['momentum']" in finding.text
    finding = look_at("good", tmp_path, configs=configs)[1]["space"]
    assert finding.status is NOTE
    assert "space" not in look_at("good", tmp_path)[1]


def test_a_counter_of_the_process_is_told_and_matters_where_the_metric_depends_on_it(tmp_path: Path) -> None:
    finding = look_at("slower_with_each_trial", tmp_path)[1]["globals"]
    assert finding.status is WARNING
    assert "the training changes _COUNTED['steps'], which is made once for all trials" in finding.text
    assert line_of(finding) == '_COUNTED = {"steps": 0}'
    assert look_at("counts_calls", tmp_path)[1]["globals"].status is NOTE


def test_a_loader_that_shuffles_after_a_pause_in_another_order_is_noted(tmp_path: Path) -> None:
    finding = look_at("shuffles", tmp_path)[1]["save and load"]
    assert finding.status is NOTE
    assert "The saved state was read completely, so random numbers may be the reason" in finding.text


def test_a_schedule_that_is_not_saved_is_named_before_it_changes_anything(tmp_path: Path) -> None:
    """The iterations of a check are equal bit for bit; those after the first step of the schedule are not."""
    finding = look_at("forgets_schedule", tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert finding.text.startswith("schedule.last_epoch starts again at each pause")
    assert finding.remedy == "save schedule.state_dict() with the model, and load it again"


@pytest.mark.parametrize(
    ("name", "counter", "remedy"),
    [
        ("forgets_epoch", "epoch", "go on from it: first = state['epoch'] + 1"),
        ("around_it", "epoch", "go on from it: first = state['epoch'] + 1"),
        ("ForgetsItsEpoch", "self.epoch", "go on from it: self.epoch = state['epoch']"),
    ],
)
def test_an_epoch_that_is_not_saved_is_named(name: str, counter: str, remedy: str, tmp_path: Path) -> None:
    finding = look_at(name, tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert finding.text.startswith(f"{counter} starts again at each pause")
    assert finding.remedy == f"save {counter} with the model, and {remedy}"


def test_a_counter_that_changes_nothing_is_only_noted(tmp_path: Path) -> None:
    finding = look_at("counts_for_itself", tmp_path)[1]["save and load"]
    assert finding.status is NOTE
    assert "bit for bit; only epoch starts again at each pause" in finding.text


def test_a_model_that_all_trials_of_a_process_would_share_is_refused(tmp_path: Path) -> None:
    """A slot trains one trial after the other; the second one would start with what the first has learned."""
    finding = look_at("GlobalModel", tmp_path)[1]["globals"]
    assert finding.status is FAILED
    assert finding.text.startswith("the training changes SHARED_MODEL, which is made once for all trials")
    assert finding.place is not None
    assert finding.place.code == "SHARED_MODEL = torch.nn.Linear(4, 2)"


def test_data_that_a_trial_changes_for_the_next_one_are_told(tmp_path: Path) -> None:
    """What is loaded once, when it is first needed, is not."""
    seen, found = look_at("scales_its_data", tmp_path)
    assert seen.solo is not None
    assert [each.name for each in seen.solo.changed] == ["_PICTURES", "_LABELS[0]"]
    assert found["globals"].status is WARNING
    assert line_of(found["globals"]).startswith("_PICTURES, _LABELS =")


def test_a_generator_that_cannot_be_ended_is_refused_with_the_line(tmp_path: Path) -> None:
    finding = look_at("goes_on_after_its_end", tmp_path)[1]["training"]
    assert finding.status is FAILED
    assert "expected except Exception: there" in finding.text
    assert line_of(finding).startswith("yield float")


def test_an_error_is_told_although_the_training_closed_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "output").open("w", encoding="utf-8") as output:
        monkeypatch.setattr("sys.stderr", output)
        finding = look_at("closes_its_output", tmp_path)[1]["training"]
    assert "iteration 1 raised ValueError: in the first epoch" in finding.text


def test_code_that_insists_on_a_gpu_is_shown_the_device_of_its_worker(tmp_path: Path) -> None:
    finding = look_at("OnItsGpu", tmp_path)[1]["training"]
    assert finding.status is FAILED
    assert finding.place is not None
    assert finding.place.code == 'self.model = self.model.to("cuda")'
    assert finding.remedy is not None
    assert "use worker.device" in finding.remedy


def test_a_state_where_a_function_should_be_is_shown_at_its_line(tmp_path: Path) -> None:
    finding = look_at("yields_its_state", tmp_path)[1]["training"]
    assert "expected `yield metrics, save`, where save is a function" in finding.text
    assert line_of(finding).startswith("yield {")


def test_what_a_function_saves_and_does_not_read_is_named(tmp_path: Path) -> None:
    finding = look_at("forgets_momentum", tmp_path)[1]["save and load"]
    assert finding.status is WARNING
    assert "state['momentum'] is saved and never read" in finding.text


def test_a_training_of_one_iteration_stays_finished(tmp_path: Path) -> None:
    finding = look_at("once", tmp_path)[1]["save and load"]
    assert finding.status is FINE
    assert "stays finished" in finding.text


def test_an_error_is_told_with_its_line(tmp_path: Path) -> None:
    finding = look_at("raises", tmp_path)[1]["training"]
    assert finding.status is FAILED
    assert "iteration 2 raised ValueError: shapes (3,) and (4,) do not match" in finding.text
    assert line_of(finding).startswith("raise ValueError")


def test_a_line_of_a_notebook_is_shown_by_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that trains has no file with that name, and its path says nothing to the user."""
    cell = "/tmp/ipykernel_17207/4109022160.py"
    lines = ["def wrong(config):\n", "    yield {'loss': missing}\n"]
    monkeypatch.setitem(linecache.cache, cell, (40, None, lines, cell))
    seen = failed("training", "iteration 1 raised NameError", CodePlace(file=cell, line=2))
    assert list(seen.with_code().lines())[1] == "line 2 of a notebook cell: yield {'loss': missing}"


def test_a_function_of_one_hyperparameter_is_shown_how_to_take_the_configuration(tmp_path: Path) -> None:
    finding = look_at("takes_one_value", tmp_path)[1]["training"]
    assert "TypeError" in finding.text
    assert line_of(finding) == "return float(lr * 2)"
    assert finding.remedy is not None
    assert "the first argument is the configuration: def takes_one_value(config)" in finding.remedy


def test_a_state_that_cannot_become_bytes_is_told(tmp_path: Path) -> None:
    finding = look_at("unsaved_model", tmp_path)[1]["save and load"]
    assert finding.status is FAILED
    assert "Random" in finding.text
    assert finding.remedy is not None
    assert "state_dict()" in finding.remedy


def test_an_exit_of_the_training_is_an_error_of_it(tmp_path: Path) -> None:
    finding = look_at("leaves", tmp_path)[1]["training"]
    assert "SystemExit: 3" in finding.text
    assert line_of(finding) == "sys.exit(3)"


def test_loops_of_the_worker_are_cut_short_after_the_first_iteration(tmp_path: Path) -> None:
    seen, found = look_at("GangOfLoader", tmp_path)
    assert {each.status for each in found.values()} == {FINE}
    assert seen.solo is not None
    assert [row["batches"] for row in seen.solo.rows] == [4, 3]
    assert [seconds is None for seconds in seen.solo.seconds] == [False, True]


def test_a_slot_with_a_gpu_on_a_machine_without_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would train on the CPU at the price of a GPU."""
    monkeypatch.delenv("ELASTUNE_LOGICAL_GPUS", raising=False)
    finding = look_at("good", tmp_path, gpus=1)[1]["device"]
    assert finding.status is FAILED
    assert "slot asks for 1 GPU, but torch can use none on this machine" in finding.text
