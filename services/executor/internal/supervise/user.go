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

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// account is a user as the kernel knows one.
type account struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
}

// lookUp finds a user of this server by name.
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

// UserID gives the number of a user; -1 for the empty one, which is our own.
func UserID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	a, err := lookUp(name)
	return a.UID, err
}

// CheckUser refuses a user that is not there, that we may not become, or that could not
// reach what is below the root; the empty one is our own.
func CheckUser(name string, root layout.Root) error {
	if name == "" {
		return nil
	}
	a, err := lookUp(name)
	if err != nil {
		return refuseConfine("the image wants to run as user %q, who is not there: %v", name, err)
	}
	if a.UID == os.Geteuid() {
		return nil
	}
	if os.Geteuid() != 0 {
		return refuseConfine("the image wants to run as user %q, which an executor that is not root cannot do", name)
	}
	for dir := string(root); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("look at %s: %w", dir, err)
		}
		if info.Mode()&0o001 == 0 {
			return refuseConfine("the image wants to run as user %q, who may not pass %s (chmod o+x %s)", name, dir, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// Own gives what is in an agent's state directory to the user that it runs as. It does
// nothing when the directory is that user's already, or no user was asked for.
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
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if int(st.Uid) == a.UID {
		return nil
	}
	root, err := os.OpenRoot(dir) // whatever an agent put there, nothing outside is changed
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	// The directory itself comes last, so that an interrupted change of owner is done again.
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != "." {
			err = give(root, path, int(st.Uid), a)
		}
		if errors.Is(err, syscall.ENOENT) {
			return nil // the old version, which may still run, deleted it
		}
		return err
	})
	if err == nil {
		err = root.Lchown(".", a.UID, a.GID)
	}
	if err != nil {
		return fmt.Errorf("give %s to %s: %w", dir, name, err)
	}
	return nil
}

// give gives one file to its new owner, and follows no link. A file of somebody else that
// has another name as well stays as it is: where the kernel lets anybody link to any file
// (fs.protected_hardlinks), the old owner may have put the server's own here. It is looked
// at and given through one descriptor, so that it cannot be swapped between the two.
func give(root *os.Root, path string, was int, a account) error {
	f, err := root.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 && int(st.Uid) != was && int(st.Uid) != a.UID {
		return nil
	}
	return unix.Fchownat(int(f.Fd()), "", a.UID, a.GID, unix.AT_EMPTY_PATH)
}

func refuseConfine(format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: CodeCannotConfine, Message: fmt.Sprintf(format, args...)})
}
