package allinone

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// part is a program on a host or in a container of its own, and the files of the data directory that it needs.
type part struct {
	name  string
	files []string // paths or patterns
}

const (
	busCA         = "trust/tls/ca.pem"
	authorityFile = "trust/authority.json"
)

// parts lists what each part needs, and nothing else: what is in a row here can be stolen from its host.
var parts = []part{
	{"bus", []string{"trust/accounts.conf", "trust/cluster/*.conf", "trust/tls/bus.pem", busCA}},
	{topology.UserRegistry, []string{
		credentialsOf(topology.UserRegistry), busCA, "trust/signer/*.json", "trust/secrets.key",
	}},
	{topology.UserCatalog, []string{credentialsOf(topology.UserCatalog), busCA}},
	{topology.UserDispatcher, []string{credentialsOf(topology.UserDispatcher), busCA, "trust/secrets.key"}},
	{topology.UserAccess, []string{
		credentialsOf(topology.UserAccess), credentialsOf(topology.UserAccessSystem), busCA, authorityFile,
		"trust/restored*.json", "trust/keys/operator.seed", "trust/keys/" + topology.AccountOps + "-*.seed",
		"trust/keys/" + topology.AccountAudit + "-*.seed", "trust/people/*.json",
	}},
	{"provision", []string{
		credentialsOf(topology.UserProvision), credentialsOf(topology.UserProvisionCopy),
		credentialsOf(topology.UserSystem), busCA, authorityFile,
	}},
	{"operator", []string{"operator.json"}},
}

func credentialsOf(user string) string { return "trust/services/" + user + ".creds" }

// handOut brings the directory of each part up to date. Each is a data directory with fewer files. What is current
// stays as it is; one part's trouble does not keep the others from theirs.
func (k Keys) handOut() error {
	if k.HandOut == "" {
		return nil
	}
	var all []error
	for _, p := range parts {
		if err := k.handTo(p); err != nil {
			all = append(all, fmt.Errorf("hand out to %s: %w", p.name, err))
		}
	}
	return errors.Join(all...)
}

// handTo writes the files of one part that changed, and removes those that it no longer needs.
func (k Keys) handTo(p part) error {
	dir := filepath.Join(k.HandOut, p.name)
	if err := k.makePart(dir); err != nil {
		return err
	}
	files, err := k.filesOf(p)
	if err != nil {
		return err
	}
	removed, err := k.removeOthers(dir, files)
	if err != nil {
		return err
	}
	for _, f := range removed {
		k.say("%s: removed %s\n", dir, f)
	}
	for _, f := range files {
		wrote, err := copyFile(filepath.Join(k.Data, f), dir, f)
		if err != nil {
			return err
		}
		if wrote {
			k.say("%s: wrote %s\n", dir, f)
		}
	}
	return nil
}

// makePart makes the directory of a part, and refuses one that another user could change or that is the data
// directory.
func (k Keys) makePart(dir string) error {
	if err := strictdir.Make(dir, 0o700); err != nil {
		return err
	}
	own, err := os.Stat(k.Data)
	if err != nil {
		return err
	}
	have, err := os.Stat(dir)
	if err == nil && os.SameFile(own, have) {
		err = fmt.Errorf("%s is the data directory; pass another directory as --hand-out", dir)
	}
	return err
}

// filesOf returns the files that a part needs. A pattern may match none.
func (k Keys) filesOf(p part) ([]string, error) {
	var files []string
	for _, pattern := range p.files {
		found, err := fs.Glob(os.DirFS(k.Data), pattern)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !strings.Contains(pattern, "*") && !(k.AllowPlain && path.Dir(pattern) == "trust/tls") {
			return nil, fmt.Errorf("%s is missing", filepath.Join(k.Data, pattern))
		}
		files = append(files, found...)
	}
	return files, nil
}

// removeOthers removes copies of the data directory's files that are not among those of a part, such as one of a part
// that ran here before. It leaves files alone that are no copies.
func (k Keys) removeOthers(dir string, files []string) (removed []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(files, name) {
			return err
		}
		if _, err := os.Lstat(filepath.Join(k.Data, name)); err != nil {
			return nil
		}
		removed = append(removed, name)
		return os.Remove(filepath.Join(dir, name))
	})
	return removed, err
}

// copyFile copies a file to a path below dir with mode 0600, unless the copy is current.
func copyFile(from, dir, name string) (wrote bool, err error) {
	text, err := os.ReadFile(from)
	if err != nil {
		return false, err
	}
	if err := private(dir, path.Dir(name)); err != nil {
		return false, err
	}
	to := filepath.Join(dir, name)
	if info, err := os.Lstat(to); err == nil && info.Mode() == 0o600 {
		if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, text) {
			return false, nil
		}
	}
	return true, renameio.WriteFile(to, text, 0o600)
}

// private makes the directories from dir down to name, each with mode 0700. None of them may be a link.
func private(dir, name string) error {
	at := dir
	for _, next := range append([]string{"."}, strings.Split(name, "/")...) {
		at = filepath.Join(at, next)
		if err := strictdir.Make(at, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(at, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// takeBack reads what parts changed in the files that they were handed: access the keys that accounts refuse, and
// the command line the operator's renewed credentials.
func (k Keys) takeBack() error {
	if k.HandOut == "" {
		return nil
	}
	access := filepath.Join(k.HandOut, topology.UserAccess)
	for _, dir := range []string{access, filepath.Join(k.HandOut, "operator")} {
		if err := strictdir.Dir(dir); err != nil {
			return err
		}
	}
	if err := trust.AdoptRevocations(filepath.Join(k.Data, "trust"), filepath.Join(access, "trust")); err != nil {
		return fmt.Errorf("take the revoked keys from access: %w", err)
	}
	return k.takeBackContext()
}

// takeBackContext keeps the operator's credentials that were renewed in the file that was handed out.
func (k Keys) takeBackContext() error {
	file := filepath.Join(k.Data, "operator.json")
	own, err := trust.ReadContext(file)
	if err != nil {
		return nil // it is made anew
	}
	renewed, err := trust.ReadContext(filepath.Join(k.HandOut, "operator", "operator.json"))
	if err != nil || renewed.PublicKey() != own.PublicKey() {
		return nil // it is handed out again
	}
	_, have := trust.Times(own.JWT)
	if _, until := trust.Times(renewed.JWT); !until.After(have) {
		return nil
	}
	own.JWT = renewed.JWT
	return own.Write(file)
}

func (k Keys) say(text string, args ...any) {
	if k.Log != nil {
		fmt.Fprintf(k.Log, text, args...)
	}
}
