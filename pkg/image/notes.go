package image

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/Masterminds/semver/v3"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// maxNotes is how many notes of one kind name their file.
const maxNotes = 5

// notes tells what is built and may surprise, at most maxNotes of one kind.
type notes struct {
	tell  func(string)
	count map[string]int
}

func newNotes(tell func(string)) *notes { return &notes{tell: tell, count: map[string]int{}} }

// add tells of a file.
func (n *notes) add(name, what string) {
	if n.count[what]++; n.tell != nil && n.count[what] <= maxNotes {
		n.tell(fmt.Sprintf("%s %s", name, what))
	}
}

// end tells how many more files there are of each kind.
func (n *notes) end() {
	for what, count := range n.count {
		if more := count - maxNotes; n.tell != nil && more > 0 {
			n.tell(fmt.Sprintf("%d more files: each %s", more, what))
		}
	}
}

// The rights of a file that an image does not keep.
const (
	dropsSetuid = "has the setuid or setgid bit, which an image does not keep; run.sandbox.user and " +
		"run.sandbox.capabilities say what the agent runs with"
	dropsCapabilities = "has file capabilities, which an image does not keep; name them in run.sandbox.capabilities"
)

// file tells of rights of a file that the image does not keep, and of a program that does not fit its platform.
func (n *notes) file(m *imagev1.Manifest, name string, f *os.File, info fs.FileInfo) {
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		n.add(name, dropsSetuid)
	}
	if hasCapabilities(f) {
		n.add(name, dropsCapabilities)
	}
	if info.Mode()&0o111 == 0 {
		return
	}
	if why := unfit(m.GetPlatform(), head(f)); why != "" {
		n.add(name, why)
	}
}

// version tells of a version that looks like the revision of a package, and has the order of a pre-release.
func (n *notes) version(m *imagev1.Manifest) {
	v, err := semver.StrictNewVersion(m.GetVersion())
	if err != nil || v.Prerelease() == "" || strings.Trim(v.Prerelease()[:1], "0123456789") != "" {
		return
	}
	core := fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
	n.add("version "+m.GetVersion(), fmt.Sprintf("comes before %s: what is behind the dash is a pre-release; a "+
		"revision that comes after it is %s_%s", core, core, v.Prerelease()))
}
