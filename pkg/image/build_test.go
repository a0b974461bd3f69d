package image_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/image"
)

// dying is a context that is done at the check after the next left ones.
type dying struct {
	context.Context
	left int
}

func (d *dying) Err() error {
	if d.left == 0 {
		return context.Canceled
	}
	d.left--
	return nil
}

// The counts of the checks differ with the sizes of reads; a build makes at least one for each entry, link and chunk.
func TestABuildStopsWhereverItsContextEndsAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const entries, links, chunks = 6, 1, 4 // of agentTree
	dir, stopped := agentTree(t), 0
	for ; ; stopped++ {
		out := t.TempDir()
		ctx := &dying{t.Context(), stopped}
		_, err := image.Build(ctx, image.BuildOptions{Dir: dir, Out: filepath.Join(out, "x.gimg")})
		if err == nil {
			break
		}
		if left, _ := os.ReadDir(out); !errors.Is(err, context.Canceled) || len(left) > 0 {
			t.Fatalf("stopped at check %d: %v, left behind: %v", stopped, err, left)
		}
	}
	if least := entries + links + chunks + 4; stopped < least { // the data is read in many pieces
		t.Errorf("the context was checked %d times, want at least %d", stopped, least)
	}
}

// badEntries are refused as the executor would refuse them, each with its code and a part of the reason.
var badEntries = map[string]struct {
	files      map[string]entry
	code, says string
}{
	"an absolute link": {map[string]entry{"l": {link: "/etc/passwd"}}, code.LinkEscapes, `"/etc/passwd"`},
	"a link outside":   {map[string]entry{"d/l": {link: "../../x"}}, code.LinkEscapes, `"../../x", out of`},
	"a link up behind another link": {
		map[string]entry{"d/e/m": {link: "../.."}, "d/e/l": {link: "m/../x"}}, code.LinkEscapes, `"m/../x", out of`,
	},
	"a dangling link": {
		map[string]entry{"dangling": {link: "nope"}}, code.LinkEscapes,
		`"dangling" leads to "nope", which is not in the image`,
	},
	"a link to the recipe, which is not packed": {
		map[string]entry{"l": {link: image.RecipeName}}, code.LinkEscapes, "not in the image",
	},
	"links in a circle":             {map[string]entry{"l": {link: "m"}, "m": {link: "l"}}, code.LinkEscapes, "circle"},
	"a link by way of files":        {map[string]entry{"l": {link: "run/"}}, code.LinkEscapes, "not a directory"},
	"a name that holds a newline":   {map[string]entry{"a\nb": {}}, code.BadName, `"a\nb" has a control character`},
	"a name that is not UTF-8":      {map[string]entry{"a\xff": {}}, code.BadName, `"a\xff" is not UTF-8`},
	"a name that holds a backslash": {map[string]entry{`a\b`: {}}, code.BadName, `"a\\b" has a backslash`},
	"the reserved file":             {map[string]entry{archive.Reserved: {}}, code.ReservedName, archive.Reserved},
	"the reserved directory": {
		map[string]entry{archive.Reserved + "/x": {}}, code.ReservedName, archive.Reserved,
	},
}

func TestBuildRefusesWhatNoExecutorUnpacks(t *testing.T) {
	t.Parallel()
	refusals := map[string]refusal{}
	for name, c := range badEntries {
		files := maps.Clone(run)
		maps.Copy(files, c.files)
		refusals[name] = refusal{daemon("args: []"), files, c.code, c.says}
	}
	refuseBuilds(t, refusals)
}

func TestBuildRefusesANameThatIsTooLongToUnpack(t *testing.T) {
	t.Parallel()
	dir := dirOf(t, daemon("args: []"))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	part := strings.Repeat("n", 255)
	if err := root.MkdirAll(strings.Repeat(part+"/", archive.MaxName/256+1), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(dir, part)) })
	_, err = image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: filepath.Join(t.TempDir(), "x.gimg")})
	wantCode(t, err, code.BadName)
}

// A build that opened a pipe to read it would wait for a writer and never end.
func TestBuildRefusesAPipeAndDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ code, says string }{
		image.RecipeName: {code.BadRecipe, image.RecipeName + " is not a regular file"},
		"template":       {code.BadTemplate, `"template" is not a regular file`},
		"other":          {code.SpecialFile, `"other" is neither a file`},
	} {
		files := map[string]entry{
			"run":            run["run"],
			"template":       {text: "x"},
			image.RecipeName: {text: daemon("configs: [{template: template, path: x}]")},
		}
		delete(files, name)
		dir := tree(t, files)
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		stop := closeAfterAMinute(t, filepath.Join(dir, name))
		_, err := image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: filepath.Join(t.TempDir(), "x.gimg")})
		if !stop() {
			t.Errorf("the build waited for the pipe %s", name)
		}
		wantCode(t, err, want.code)
		if !strings.Contains(err.Error(), want.says) {
			t.Errorf("%v does not say %q", err, want.says)
		}
	}
}

// closeAfterAMinute ends a pipe for a reader that still waits for it by then.
func closeAfterAMinute(t *testing.T, pipe string) (stop func() bool) {
	return time.AfterFunc(time.Minute, func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Error(err)
			return
		}
		_ = f.Close()
	}).Stop
}

func TestAnEntryThatCannotBeReadIsNamedWithoutTheKernelsWords(t *testing.T) {
	t.Parallel()
	err := image.Unlisted("priv", &fs.PathError{Op: "openat", Path: "priv", Err: syscall.EACCES})
	if want := `"priv" cannot be read: permission denied`; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	wantCode(t, image.Unlisted("gone", &fs.PathError{Op: "openat", Path: "gone", Err: syscall.ENOENT}), code.Changed)
	if os.Geteuid() == 0 {
		return // who may read every file
	}
	dir := dirOf(t, daemon("args: []"))
	if err := os.WriteFile(filepath.Join(dir, "priv"), nil, 0o200); err != nil {
		t.Fatal(err)
	}
	_, err = image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: filepath.Join(t.TempDir(), "x.gimg")})
	if err == nil || !strings.HasSuffix(err.Error(), `"priv" cannot be read: permission denied`) {
		t.Error(err)
	}
}
