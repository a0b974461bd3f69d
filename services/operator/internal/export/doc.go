// Package export builds the command garrison export, which writes the inventory as a file for garrison apply.
package export
