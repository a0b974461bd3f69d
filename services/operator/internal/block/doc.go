// Package block builds the command garrison block.
package block
