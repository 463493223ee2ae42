"""The contract is no test module by name; its assertions shall show as much as those of one."""

import pytest

pytest.register_assert_rewrite("tests.providers.contract")
