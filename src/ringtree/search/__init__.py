"""Rings, trees and orders of the ranks for a given machine."""
