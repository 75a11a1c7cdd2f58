"""Every method that the package finds obeys the laws, in the configuration that its file names."""

import pytest

import fedstat as fs
from fedstat.testing import check_method

pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")


@pytest.mark.parametrize("name", fs.methods.available())
def test_every_method_obeys_the_laws(name):
    cls = fs.methods.find(name)
    check_method(cls(**cls.example), examples=5)


@pytest.mark.parametrize("name", fs.methods.available())
def test_every_method_explains_itself(name):
    cls = fs.methods.find(name)
    text = " ".join((cls.__doc__ or "").split())
    assert fs.methods.available()[name].endswith(".")
    assert "new client" in text.lower()
    assert all(reason.strip() for reason in cls.exempt.values())
