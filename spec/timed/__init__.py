"""Copies that take their time: links, tiers, a tier that workers share."""
