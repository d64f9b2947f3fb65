import pytest
from shop.catalog import PRODUCTS, Catalog, Product, UnknownSku


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.sku)
def test_every_product_is_found_by_its_sku(product: Product) -> None:
    assert Catalog().find(product.sku) is product


def test_unknown_sku_is_named() -> None:
    with pytest.raises(UnknownSku, match="MUG-GREEN"):
        Catalog().find("MUG-GREEN")


@pytest.mark.parametrize(("word", "count"), [("mug", 3), ("TEA", 2), ("box", 1), ("lamp", 0)])
def test_products_match_a_word_whatever_its_case(word: str, count: int) -> None:
    assert len(Catalog().matching(word)) == count
