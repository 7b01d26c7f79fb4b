import pytest

from tests.torch_backend.parallel.test_parallel import TABLE, _run


@pytest.mark.parametrize("layout", [(1, 1, 1)])
@pytest.mark.parametrize("module, program", TABLE)
def test_as_one_process(worlds_over_hosts, module, program, layout) -> None:
    worlds_over_hosts(layout).run(_run, module, program)
