package pages_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/e2e/pages"
)

const page = "# Title\n\nText with `garrison status` and\n`garrison server\nlist`.\n\n    garrison up --all\n\n" +
	"    garrison check\n\nMore.\n    not code\n\n```sh\ngarrison whoami\n" +
	"garrison check     # exits with 3 when it differs\n" +
	"```\n\n```yaml\ngarrison: no command\n```\n"

func TestBlocksAndInlineCodeAreReadWithTheirLines(t *testing.T) {
	t.Parallel()
	p, err := pages.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []pages.Block{
		{Line: 7, Text: "garrison up --all\n\ngarrison check\n", Section: "Title"},
		{Line: 15, Text: "garrison whoami\ngarrison check     # exits with 3 when it differs\n", Run: true,
			Section: "Title"},
	}
	if diff := cmp.Diff(want, p.Blocks); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]pages.Block{{Line: 3, Text: "garrison status"}, {Line: 4, Text: "garrison server list"}},
		p.Inline); diff != "" {
		t.Error(diff)
	}
}

func TestABlockWithoutItsEndIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := pages.Parse("a\n\n```sh\nb\n"); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("the error is %v", err)
	}
}

func TestCommandsAreFoundInPipesSubstitutionsAndUsage(t *testing.T) {
	t.Parallel()
	b := pages.Block{Line: 10, Text: "runuser -u x -- /usr/bin/garrison a 'b c' | sudo garrisond --data DIR\n" +
		"x=$(executor run) # garrison no\ngarrison d [--e F|G] \\\n  --h…\n"}
	commands, err := b.Commands()
	if err != nil {
		t.Fatal(err)
	}
	want := []pages.Command{
		{Line: 10, Words: []string{"garrison", "a", "b c"}},
		{Line: 10, Words: []string{"garrisond", "--data", "DIR"}},
		{Line: 11, Words: []string{"executor", "run"}},
		{Line: 12, Words: []string{"garrison", "d", "--e", "F", "--h"}},
	}
	if diff := cmp.Diff(want, commands); diff != "" {
		t.Error(diff)
	}
}

func TestASessionMarksLinesAndExitCodes(t *testing.T) {
	t.Parallel()
	p, err := pages.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	script := pages.Session{Before: "W=whoami", Enter: map[string]string{"Title": "ENTER"},
		Replace: []string{"whoami", "whoami --x"}}.Script(p)
	for _, want := range []string{
		"W=whoami\n", "ENTER\n", "line=15\n", "garrison whoami --x\n", "exits 3 garrison check\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("the script has no %q:\n%s", want, script)
		}
	}
}

// A program that prints its help as ours do.
const program = `#!/bin/sh
case "$*" in
'help all') printf '  %s\n' 'server      Servers.' 'journal show     Print.' '' 'Flags:' '      --context FILE   x' ;;
'server --help') printf '  %s\n' 'list   List.' '' 'Flags:' '  -w, --watch   x' '      --on SELECTOR   x' ;;
'server list --help') printf '  %s\n' 'Flags:' '      --on SELECTOR   x' '  -m, --message TEXT   x' ;;
*) exit 9 ;;
esac
`

func TestCommandsAndFlagsThatDoNotExistAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "garrison"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	programs := &pages.Programs{Dir: dir, Targets: []string{"build"}}
	for line, want := range map[string]string{
		"garrison server list --on all -m x":         "",
		"garrison --context server server list":      "",
		"garrison server VERB":                       "",
		"garrison server lost --on all":              `there is no command "lost"`,
		"garrison server list --of all":              `garrison server list has no flag "of"`,
		"garrison sever":                             `there is no command "sever"`,
		"make build A=b":                             "",
		"make bulid":                                 `make has no target "bulid"`,
		"another program --with flags":               "",
		"echo $(garrison server list --nothing=x y)": `has no flag "nothing"`,
	} {
		commands, err := pages.Block{Line: 1, Text: line}.Commands()
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, c := range commands {
			if err := programs.Check(t.Context(), c); err != nil {
				found = append(found, fmt.Sprint(err))
			}
		}
		if have := strings.Join(found, "\n"); (want == "") != (have == "") || !strings.Contains(have, want) {
			t.Errorf("%s: %q, want %q", line, have, want)
		}
	}
}
