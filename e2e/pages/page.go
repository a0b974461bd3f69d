// Package pages keeps the commands in the documentation true.
//
// It reads the code blocks and the inline code of a Markdown page:
//
//  1. The blocks that are fenced as sh are one session: a shell runs them from the top of the page to its end, with
//     the programs under test.
//  2. In all other blocks, which need several machines, systemd or a container, and in inline code, each command line
//     of a program of Garrison is compared with the help that the program prints: each command, each flag and each
//     target of make must exist.
//
// A fence of another language than sh, such as yaml, holds no commands.
package pages

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Page is a page of the documentation.
type Page struct {
	Path   string
	Blocks []Block
	Inline []Block // the inline code
}

// Block is a piece of code of a page.
type Block struct {
	Line    int // of its first line of code, from 1
	Text    string
	Run     bool   // is fenced as sh, and run
	Section string // the heading before it
}

// Runs reports whether the page has blocks that are run.
func (p Page) Runs() bool {
	for _, b := range p.Blocks {
		if b.Run {
			return true
		}
	}
	return false
}

// Read reads the page in a file.
func Read(path string) (Page, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Page{}, err
	}
	p, err := Parse(string(data))
	p.Path = path
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// inlineCode is a span of code in one or two lines of a paragraph.
var inlineCode = regexp.MustCompile("`([^`]+)`")

// Parse reads a page. Its error names a fence that does not end.
func Parse(text string) (Page, error) {
	var p Page
	r := reader{page: &p}
	for n, line := range strings.Split(text, "\n") {
		r.line(n+1, line)
	}
	if r.fenced {
		return p, fmt.Errorf("line %d: the block has no end", r.block.Line-1)
	}
	r.end()
	r.prose.inline(&p)
	return p, nil
}

// reader reads a page line by line.
type reader struct {
	page   *Page
	block  Block
	lines  []string
	fenced bool
	other  bool // the fence is of a language without commands
	title  string
	prose  prose
}

func (r *reader) line(n int, line string) {
	switch {
	case strings.HasPrefix(line, "```") && r.fenced:
		r.fenced = false
		r.end()
	case strings.HasPrefix(line, "```"):
		r.end()
		r.fenced = true
		language := strings.TrimPrefix(line, "```")
		r.block = Block{Line: n + 1, Run: language == "sh"}
		r.other = language != "sh" && language != "console"
	case r.fenced:
		r.lines = append(r.lines, line)
	case strings.HasPrefix(line, "    ") && (len(r.lines) > 0 || r.prose.ended):
		if len(r.lines) == 0 {
			r.block = Block{Line: n}
		}
		r.lines = append(r.lines, line[4:])
	case line == "" && len(r.lines) > 0:
		r.lines = append(r.lines, "")
	default:
		r.end()
		if title := strings.TrimLeft(line, "#"); title != line {
			r.title = strings.TrimSpace(title)
		}
		r.prose.add(n, line)
	}
}

// end ends the block that is being read.
func (r *reader) end() {
	text := strings.TrimRight(strings.Join(r.lines, "\n"), "\n")
	if text != "" && !r.other {
		r.block.Text, r.block.Section = text+"\n", r.title
		r.page.Blocks = append(r.page.Blocks, r.block)
	}
	r.lines, r.block, r.other = nil, Block{}, false
}

// prose is the text of a page outside its blocks.
type prose struct {
	text  []string
	first []int // the number of each line
	ended bool  // the last line was empty, so that indented text begins a block
}

func (p *prose) add(n int, line string) {
	p.text, p.first = append(p.text, line), append(p.first, n)
	p.ended = line == "" || strings.HasPrefix(line, "#")
}

// inline collects the inline code, paragraph by paragraph.
func (p *prose) inline(page *Page) {
	for i := 0; i < len(p.text); i++ {
		start := i
		for i+1 < len(p.text) && joins(p.text[i]) && joins(p.text[i+1]) {
			i++
		}
		paragraph := strings.Join(p.text[start:i+1], "\n")
		for _, m := range inlineCode.FindAllStringSubmatchIndex(paragraph, -1) {
			line := p.first[start] + strings.Count(paragraph[:m[0]], "\n")
			code := strings.Join(strings.Fields(paragraph[m[2]:m[3]]), " ")
			page.Inline = append(page.Inline, Block{Line: line, Text: code})
		}
	}
}

// joins reports whether a line is of a paragraph: not empty, nor a row of a table.
func joins(line string) bool { return line != "" && !strings.HasPrefix(line, "|") }

// Session is how the blocks of a page that are fenced as sh are run.
type Session struct {
	Before  string            // what the shell runs first, such as functions for what a test may not do
	Enter   map[string]string // what it runs before the first block of a section
	After   string            // what it runs at the end
	Replace []string          // pairs: a text of the blocks, such as a path, and what stands for it in the test
}

// exits marks a command that must exit with another code than 0.
var exits = regexp.MustCompile(`(?m)^(.*\S) +# (?:.* )?exits with ([1-9][0-9]*)\b.*$`)

// Script returns the program of the shell for a page. A command that fails ends it, with the line of its block.
func (s Session) Script(p Page) string {
	replace := strings.NewReplacer(s.Replace...)
	var out strings.Builder
	out.WriteString("set -Eeuo pipefail\nline=0\n" +
		"trap 'echo \"block at line $line: $BASH_COMMAND: exit code $?\" >&2' ERR\n" +
		"exits() { local code=0 want=$1; shift; \"$@\" || code=$?; [ $code = $want ] ||" +
		" { echo \"exit code $code, not $want\" >&2; return 1; }; }\n")
	out.WriteString(s.Before + "\n")
	section := ""
	for _, b := range p.Blocks {
		if b.Run {
			if b.Section != section {
				section = b.Section
				out.WriteString(s.Enter[section] + "\n")
			}
			text := exits.ReplaceAllString(b.Text, "exits $2 $1")
			fmt.Fprintf(&out, "line=%d\necho \"== line $line\"\n%s\n", b.Line, replace.Replace(text))
		}
	}
	out.WriteString(s.After + "\n")
	return out.String()
}
