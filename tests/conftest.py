"""What all tests share. Fixtures live in modules of their own, named for what they provide."""

from hypothesis import settings

pytest_plugins = ["tests.fixtures_aws", "tests.fixtures_s3", "tests.fixtures_bad_day"]

# How long an example takes says more about the machine than about the code.
# The same examples each time: a run that fails, fails again. `pytest --hypothesis-profile=explore` looks for new ones.
settings.register_profile("blizzard", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=3000)
settings.load_profile("blizzard")
