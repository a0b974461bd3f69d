package strictdir

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	othersWrite fs.FileMode = 0o022
	othersRead  fs.FileMode = 0o077
)

// position is where an entry is on the way to a path.
type position bool

const (
	onTheWay position = false
	last     position = true
)

// checkEntry refuses a directory, file or link that another user than root and this one could change.
func checkEntry(path string, info fs.FileInfo, p position) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fault.New(fault.Internal, "%s has no owner", path)
	}
	me := os.Geteuid()
	if safe(int(stat.Uid), me, info.Mode(), p) {
		return nil
	}
	return fault.Refusef(fault.Denied, code.UnsafePermissions,
		"%s belongs to %s and has mode %04o: another user could replace what this program trusts",
		path, name(int(stat.Uid)), unixMode(info.Mode()),
	).Try(correction(path, int(stat.Uid), me, info.Mode()))
}

// safe reports whether only root and the user me can change an entry.
func safe(owner, me int, mode fs.FileMode, p position) bool {
	switch {
	case owner != 0 && owner != me:
		return false
	case mode&fs.ModeSymlink != 0, mode&othersWrite == 0:
		return true // a link has no mode of its own
	}
	return p == onTheWay && mode.IsDir() && mode&fs.ModeSticky != 0
}

// correction returns the command that makes an entry safe.
func correction(path string, owner, me int, mode fs.FileMode) string {
	chown := fmt.Sprintf("chown -h %s %s", name(me), path)
	switch {
	case owner == 0 || owner == me:
		return "chmod go-w " + path
	case mode&fs.ModeSymlink == 0 && mode&othersWrite != 0:
		return chown + " && chmod go-w " + path
	}
	return chown
}

func refuseReadable(path string, info fs.FileInfo) error {
	return fault.Refusef(fault.Denied, code.UnsafePermissions,
		"%s is a secret and has mode %04o: another user could read it", path, unixMode(info.Mode()),
	).Try("chmod go-rwx " + path)
}

func refuseLink(path string) error {
	try := "name the directory itself"
	if target, err := filepath.EvalSymlinks(path); err == nil {
		try += ": " + target
	}
	return fault.Refusef(fault.Denied, code.UnsafePermissions,
		"%s is a symbolic link, and a data directory must not be one", path).Try(try)
}

// unixMode returns the permissions as chmod and ls show them, with the sticky bit.
func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	if m&fs.ModeSticky != 0 {
		mode |= syscall.S_ISVTX
	}
	return mode
}

// name returns the name of a user, or the number of one without a name.
func name(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}
