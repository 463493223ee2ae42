"""The contract is no test module by name; its assertions shall tell as much as those of one."""

import pytest

pytest.register_assert_rewrite("tests.providers.contract")
