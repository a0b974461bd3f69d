package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/configdir"
)

// A version in the table may say a level behind a plus, which is in its configuration:
// 6.0.0+debug is the image 6.0.0 with the level debug.

var (
	signalled   = []func(*imagev1.Manifest){configured(imagev1.Reload_RELOAD_SIGNAL)}
	anew        = []func(*imagev1.Manifest){configured(imagev1.Reload_RELOAD_RESTART), rehearsed}
	plainOf     = func(version string) string { plain, _, _ := strings.Cut(version, "+"); return plain }
	hasLevel    = func(version string) bool { return strings.Contains(version, "+") }
	versionWith = func(i *change.Instance) string {
		if level := i.Metadata["level"]; level != "" {
			return i.Image.GetVersion() + "+" + level
		}
		return i.Image.GetVersion()
	}
)

// bring puts a version into the document, with its level.
func (l *life) bring(agent, version string) (task string) {
	m := proto.CloneOf(l.images[agent+version])
	_, level, _ := strings.Cut(version, "+")
	if level == "" {
		return l.want(m)
	}
	verb := upgrade
	if plainOf(version) == plainOf(l.have) {
		verb = configure
	}
	return l.wantWith(m, verb, values{"level": level})
}

// configuredOnDisk looks whether the configuration is the inventory's, alone and whole,
// and whether it is the last one that the agent read.
func (l *life) configuredOnDisk(i *change.Instance) (bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	link, err := os.Readlink(l.root.Config(i.Agent))
	entries, _ := os.ReadDir(l.root.Configs(i.Agent))
	level := i.Metadata["level"]
	if level == "" {
		if _, there := os.Lstat(l.root.Configs(i.Agent)); err == nil || there == nil {
			complain("a configuration is there: %q", link)
		}
		return bad
	}
	if link != l.root.RenderedLink(i.Rendered) || len(entries) != 1 {
		complain("the configuration's link leads to %q (%v), want %s; %d are there", link, err, i.Rendered,
			len(entries))
	}
	if err := configdir.Check(filepath.Join(l.root.Agent(i.Agent), link)); err != nil {
		complain("%v", err)
	}
	want := fmt.Sprintf("level = %s\nof = %s %s\n", level, i.Agent, i.Image.GetVersion())
	if got := l.rendered(); got != want {
		complain("the configuration is %q, want %q", got, want)
	}
	last := func() string {
		seen := l.seen()
		return seen[strings.LastIndex(seen, " ")+1:]
	}
	for end := time.Now().Add(time.Minute); last() != level && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if last() != level {
		complain("the agent saw %s, and last not %s", l.seen(), level)
	}
	return bad
}
