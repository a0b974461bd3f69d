package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/garrison-fleet/garrison/pkg/seal"
)

// keyCount is how many release keys every package carries: when one is lost, releases are signed by the other, which
// every machine knows already.
const keyCount = 2

func (o Options) check() error {
	v, err := semver.StrictNewVersion(o.Version)
	if err != nil || v.Metadata() != "" {
		return fmt.Errorf("the version %q is not of the form 1.2.3 or 1.2.3-rc.1: make release VERSION=1.2.3, "+
			"with LOCAL=1 for a build to try", o.Version)
	}
	for _, arch := range o.Archs {
		if !slices.Contains([]string{"amd64", "arm64"}, arch) {
			return fmt.Errorf("the architecture %q is neither amd64 nor arm64", arch)
		}
	}
	if n := len(o.Keys); n != 0 && (n != keyCount || o.Keys[0] == o.Keys[1]) {
		return fmt.Errorf("%d release keys; every package carries two different ones, so that one can be lost", n)
	}
	for _, key := range o.Keys {
		if err := seal.CheckKey(key); err != nil {
			return err
		}
	}
	if o.Seed == nil {
		return nil
	}
	public, _, err := seal.SignSums(nil, o.Seed)
	if err == nil && !slices.Contains(o.Keys, public) {
		err = fmt.Errorf("the key that signs is %s, which is not one of the release keys", public)
	}
	return err
}

// tree is the state of a source tree.
type tree struct {
	commit    string
	committed time.Time
	dirty     []string // the paths that differ from the commit
}

func readTree(ctx context.Context, root string) (t tree, err error) {
	head, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return t, err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(head), " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return t, fmt.Errorf("the time of the commit: %w", err)
	}
	status, err := git(ctx, root, "status", "--porcelain")
	for line := range strings.Lines(status) {
		t.dirty = append(t.dirty, strings.TrimSpace(line[2:]))
	}
	t.commit, t.committed = commit, time.Unix(at, 0).UTC()
	return t, err
}

// version returns the version of a release of the tree. A local build precedes the version that it names, so that a
// machine leaves it by an ordinary upgrade.
func (t tree) version(o Options) (string, error) {
	if !o.Local {
		if len(t.dirty) > 0 {
			return "", fmt.Errorf("%s is not committed (%d in all); commit first, or make a local build with "+
				"--local (make release LOCAL=1)", t.dirty[0], len(t.dirty))
		}
		return o.Version, nil
	}
	v, err := semver.StrictNewVersion(o.Version)
	if err != nil {
		return "", err
	}
	marks := []string{"local", "g" + t.commit[:12]}
	if p := v.Prerelease(); p != "" {
		marks = append([]string{p}, marks...)
	}
	if len(t.dirty) > 0 {
		marks = append(marks, "dirty")
	}
	marked, err := v.SetPrerelease(strings.Join(marks, "."))
	return marked.String(), err
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...))
}

// output runs a command and returns what it prints.
func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err),
			errors.New(strings.TrimSpace(stderr.String())))
	}
	return string(out), err
}
