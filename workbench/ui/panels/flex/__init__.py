"""The tab of flex attention and its parts."""
