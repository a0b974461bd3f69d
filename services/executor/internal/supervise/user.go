package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// account is a user as the kernel identifies it.
type account struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
}

// lookUp returns a user of this server by name.
func lookUp(name string) (a account, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return a, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return a, err
	}
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.Atoi(id)
		if err != nil {
			return a, fmt.Errorf("user %s has the id %q: %w", name, id, err)
		}
		a.Groups = append(a.Groups, n)
	}
	a.UID, a.GID, a.Groups = a.Groups[0], a.Groups[1], a.Groups[2:]
	return a, nil
}

// UserID returns the id of a user; -1 for the empty name, which is the executor's own user.
func UserID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	a, err := lookUp(name)
	return a.UID, err
}

// CheckUser refuses a user that does not exist, that the executor may not become, or that could not reach the root
// directory. The empty name is the executor's own user.
func CheckUser(name string, root layout.Root) error {
	if name == "" {
		return nil
	}
	a, err := lookUp(name)
	if err != nil {
		return refuseConfine("the image runs as user %q, which does not exist: %v", name, err)
	}
	if a.UID == os.Geteuid() {
		return nil
	}
	if os.Geteuid() != 0 {
		return refuseConfine("the image runs as user %q; this executor is not root and cannot change users", name)
	}
	for dir := string(root); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("stat %s: %w", dir, err)
		}
		if info.Mode()&0o001 == 0 {
			return refuseConfine("the image runs as user %q, who may not traverse %s (chmod o+x %s)", name, dir, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// Own makes the user that an agent runs as the owner of its state directory and everything in it. It does nothing when
// the user owns the directory already, or the name is empty.
func Own(dir, name string) error {
	if name == "" {
		return nil
	}
	a, err := lookUp(name)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	if int(st.Uid) == a.UID {
		return nil
	}
	root, err := os.OpenRoot(dir) // confines the change to the directory, whatever the agent put there
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	// The directory itself comes last, so that an interrupted change of owner is repeated.
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != "." {
			err = chown(root, path, int(st.Uid), a)
		}
		if errors.Is(err, syscall.ENOENT) {
			return nil // deleted by the old version, which may still run
		}
		return err
	})
	if err == nil {
		err = root.Lchown(".", a.UID, a.GID)
	}
	if err != nil {
		return fmt.Errorf("change the owner of %s to %s: %w", dir, name, err)
	}
	return nil
}

// chown changes the owner of one file, and follows no link. A hard-linked file of root or of
// a third user keeps its owner: an agent of root, or a user who could write here, may have linked one of the server's
// own files into the directory. One descriptor serves the check and the change, so that the file cannot be swapped in
// between.
func chown(root *os.Root, path string, was int, a account) error {
	f, err := root.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	own := int(st.Uid) == a.UID || was != 0 && int(st.Uid) == was
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 && !own {
		return nil
	}
	return unix.Fchownat(int(f.Fd()), "", a.UID, a.GID, unix.AT_EMPTY_PATH)
}

func refuseConfine(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.CannotConfine, format, args...)
}
