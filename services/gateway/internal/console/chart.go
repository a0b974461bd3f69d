package console

import "fmt"

// chart is a drawing. Its title and those of its shapes say in words what it shows.
type chart struct {
	Label, Class, Caption string
	Width, Height         int
	Shapes                []shape
	Words                 []word
}

type shape struct {
	X, Y, W, H         float64
	Class, Title, Link string
}

type word struct {
	X, Y float64
	Text string
}

// bars is a row of a bar chart, and bar a part of it.
type bars struct {
	Name  string
	Parts []bar
}

type bar struct {
	Count              int
	Class, Title, Link string
}

// The measures of a bar chart.
const (
	chartWidth, namesWidth = 1000, 190
	rowHeight, barHeight   = 26, 18
)

// barChart draws rows of parts, each row to the scale of the largest. It is nil without rows.
func barChart(label string, rows []bars) *chart {
	most := 0
	for _, row := range rows {
		most = max(most, row.total())
	}
	if most == 0 {
		return nil
	}
	c := &chart{Label: label, Class: "bars", Width: chartWidth, Height: rowHeight * len(rows)}
	for n, row := range rows {
		y := float64(n * rowHeight)
		c.Words = append(c.Words, word{0, y + 14, cut(row.Name, 28)})
		x := float64(namesWidth)
		for _, is := range row.Parts {
			w := float64(is.Count) / float64(most) * (chartWidth - namesWidth - 60)
			c.Shapes = append(c.Shapes, shape{x, y, w, barHeight, is.Class, is.Title, is.Link})
			x += w
		}
		c.Words = append(c.Words, word{x + 6, y + 14, fmt.Sprint(row.total())})
	}
	return c
}

func (b bars) total() (n int) {
	for _, is := range b.Parts {
		n += is.Count
	}
	return n
}

// cut returns a text of at most n characters.
func cut(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

// The measures of a chart of cells.
const cellSize, cellsInRow, cellsDrawn = 20, 50, 2000

// cellChart draws one cell for each server.
func cellChart(label string, cells []shape) *chart {
	if len(cells) == 0 {
		return nil
	}
	c := &chart{Label: label, Class: "cells", Width: cellsInRow * cellSize}
	for n, is := range cells[:min(len(cells), cellsDrawn)] {
		is.X, is.Y = float64(n%cellsInRow*cellSize), float64(n/cellsInRow*cellSize)
		is.W, is.H = cellSize-2, cellSize-2
		c.Shapes = append(c.Shapes, is)
		c.Height = (n/cellsInRow + 1) * cellSize
	}
	if more := len(cells) - cellsDrawn; more > 0 {
		c.Caption = fmt.Sprintf("And %d more.", more)
	}
	return c
}
