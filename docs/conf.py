"""Settings of Sphinx for `make site`, which uses no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "python")]

from tfmuster import __version__  # noqa: E402 - the package of this checkout

project = "tfmuster"
author = "tfmuster maintainers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_design",
    "r_pages",
    "option_groups",
]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_static", "_templates", "_ext"]
templates_path = ["_templates"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
myst_url_schemes = ["http", "https", "mailto", "r"]  # r: is a page of R

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections have the types, in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

#: What pkgdown has made of R's manual and vignettes. Without R, the site has no R pages.
r_pages_folder = os.environ.get("TFMUSTER_R_PAGES", "")

html_theme = "pydata_sphinx_theme"
html_title = "tfmuster"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_sidebars = {
    "index": [],
    "r/**": [],
    "quickstart": [],
    "install": [],
    "security": [],
    "troubleshoot": [],
    "news": [],
}
html_theme_options = {
    "logo": {"text": "tfmuster"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": False,
    "navigation_with_keys": False,
}
suppress_warnings = ["misc.highlighting_failure"]
