"""The front door without a screen: what was entered -> a scenario -> regions of HTML.

`workbench.ui` draws it with widgets, in Jupyter; `workbench.site` on a page in a browser.
"""
