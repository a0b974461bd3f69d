// Package unpack unpacks an image's archive, which is untrusted input, as root.
//
// Guarantees:
//
//  1. Nothing is made outside the directory: every call goes through os.Root, names are
//     checked as well, and a link must lead to something within the image. The rules are
//     those of pkg/archive, which the build applies too.
//  2. Only directories, regular files, symbolic links and hard links are made; never a
//     device, a fifo, or anything setuid, setgid or sticky. Owners in the archive are ignored.
//  3. No name is made twice, and no file is written through a link.
//  4. No more entries and no more bytes are read than the manifest says; memory is
//     bounded whatever the archive says (zstd window at most maxWindow).
//  5. No file is open for writing while this process forks, so that what was unpacked can be
//     executed at once.
//  6. Every refusal carries a stable code.
package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

const (
	maxWindow   = 8 << 20  // what zstd's own levels up to 19 need
	perEntry    = 16 << 10 // what an entry's headers may take beside its content
	specialMode = 0o7000   // setuid, setgid, sticky
)

// Limits are what the manifest says of an archive.
type Limits struct {
	Entries uint32
	Bytes   uint64 // of all files together

	Writing func(bytes uint64) // called before so many bytes are written, entries included; or nil
}

// EntryBytes is what an entry takes on a disk beside its content, at most: the rest of its last block.
const EntryBytes = 4 << 10

// Unpack reads a zstd-compressed tar archive into dir, which must be empty. What it
// made before an error stays; the caller throws dir away.
func Unpack(ctx context.Context, src io.Reader, dir string, l Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer func() { _ = root.Close() }()
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer z.Close()
	if l.Writing == nil {
		l.Writing = func(uint64) {}
	}
	u := &unpacker{
		ctx:    ctx,
		root:   root,
		limits: l,
		made:   archive.NewTree(),
		buffer: make([]byte, 256<<10),
	}
	// Padding and headers are bounded too, or an archive of headers alone would never end.
	most := l.Bytes + uint64(l.Entries+2)*perEntry
	u.tar = tar.NewReader(io.LimitReader(z, int64(min(most, 1<<62))))
	if err := u.all(); err != nil {
		return err
	}
	return u.checkLinks()
}

type unpacker struct {
	ctx     context.Context
	root    *os.Root
	tar     *tar.Reader
	limits  Limits
	entries uint32
	bytes   uint64
	made    *archive.Tree // everything that was made
	buffer  []byte
}

func (u *unpacker) all() error {
	for {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		h, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return refuse(code.BadArchive, "the archive cannot be read after %d entries: %v", u.entries, err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if u.entries++; u.entries > u.limits.Entries {
			return refuse(code.TooLarge, "the archive has more than the %d entries that its manifest says",
				u.limits.Entries)
		}
		u.limits.Writing(EntryBytes)
		if err := u.one(h); err != nil {
			return err
		}
	}
}

func (u *unpacker) one(h *tar.Header) error {
	name, err := archive.CheckName(h.Name)
	if err != nil {
		return err
	}
	if h.Mode&specialMode != 0 {
		return refuse(code.BadArchive, "%q is setuid, setgid or sticky", h.Name)
	}
	if was, ok := u.made.Type(name); ok {
		if name == "." && h.Typeflag == tar.TypeDir {
			return nil // the archive's own top
		}
		return refuse(code.BadArchive, "%q is there twice (first as type %q)", h.Name, was)
	}
	if err := u.parents(name); err != nil {
		return err
	}
	u.made.Add(name, h.Typeflag)
	switch h.Typeflag {
	case tar.TypeDir:
		return u.wrap(name, u.root.Mkdir(name, 0o755))
	case tar.TypeReg:
		return u.file(name, h)
	case tar.TypeSymlink:
		return u.symlink(name, h)
	case tar.TypeLink:
		return u.hardLink(name, h)
	}
	return refuse(
		code.SpecialFile,
		"%q has type %q; only files, directories and links are unpacked",
		h.Name,
		h.Typeflag,
	)
}

// parents makes the directories above name. One that is not a directory that was made
// here is refused, so nothing is ever written through a link.
func (u *unpacker) parents(name string) error {
	dir := path.Dir(name)
	kind, ok := u.made.Type(dir)
	if ok && kind == tar.TypeDir {
		return nil
	}
	if ok {
		return refuse(code.BadArchive, "%q is below %q, which is no directory", name, dir)
	}
	if err := u.parents(dir); err != nil {
		return err
	}
	if u.made.Len() > 4*int(u.limits.Entries)+1024 {
		return refuse(code.TooLarge, "the archive implies more directories than its entries explain")
	}
	u.made.Add(dir, tar.TypeDir)
	return u.wrap(dir, u.root.Mkdir(dir, 0o755))
}

func (u *unpacker) file(name string, h *tar.Header) error {
	if h.Size < 0 || uint64(h.Size) > u.limits.Bytes-u.bytes {
		return refuse(code.TooLarge, "the archive's files have more than the %d bytes that its manifest says",
			u.limits.Bytes)
	}
	u.bytes += uint64(h.Size)
	if err := u.write(name, os.O_CREATE|os.O_EXCL, nil); err != nil {
		return u.wrap(name, err)
	}
	n, err := io.CopyBuffer(&pieces{u, name}, &contextReader{u.ctx, u.tar, u.limits.Writing}, u.buffer)
	if err == nil {
		err = u.root.Chmod(name, fileMode(h))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, zstd.ErrMagicMismatch) {
		return refuse(code.BadArchive, "%q ends after %d of %d bytes", name, n, h.Size)
	}
	if err != nil {
		return u.wrap(name, err)
	}
	return u.wrap(name, u.root.Chtimes(name, h.ModTime, h.ModTime))
}

// fileMode keeps what the archive says of reading and executing; images are read-only.
func fileMode(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode)&0o555 | 0o400 }

func (u *unpacker) symlink(name string, h *tar.Header) error {
	if err := u.made.AddLink(name, h.Linkname); err != nil {
		return err
	}
	return u.wrap(name, u.root.Symlink(h.Linkname, name))
}

func (u *unpacker) hardLink(name string, h *tar.Header) error {
	target, err := archive.CheckName(h.Linkname)
	if err != nil {
		return err
	}
	if kind, _ := u.made.Type(target); kind != tar.TypeReg {
		return refuse(code.LinkEscapes, "%q is a hard link to %q, which is no file before it", name, h.Linkname)
	}
	return u.wrap(name, u.root.Link(target, name))
}

// checkLinks follows every symbolic link to its end. The end must be there and within
// the image: in a sealed image a link that leads nowhere never will lead anywhere.
func (u *unpacker) checkLinks() error {
	for _, name := range u.made.Links() {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if err := u.made.Follow(name); err != nil {
			return err
		}
	}
	return nil
}

// wrap says at which entry the disk refused.
func (u *unpacker) wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("unpack %q: %w", name, err)
}

type contextReader struct {
	ctx    context.Context
	r      io.Reader
	report func(bytes uint64) // called with what is read, and will be written
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.report(uint64(n))
	return n, err
}

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid,
		&apiv1.Refusal{Code: code, Message: strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")})
}

// A process that is forked while a file is open for writing has the file open too, until it
// executes its own program. Meanwhile that file cannot be executed: ETXTBSY. Agents are
// started while others are unpacked, so no file is open for writing while this process forks:
// each piece is written with the lock held that a fork takes (syscall.ForkLock).
//
// A retry of the start would cover one of many places that execute what was unpacked: the
// agents, their probes and rehearsals, set-ups, the executor itself, and systemd.

// write opens a file, appends one piece and closes the file, while nothing is forked. A piece
// has at most the size of the unpacker's buffer, so that a fork waits for moments.
func (u *unpacker) write(name string, flags int, piece []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_APPEND|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(piece)
	return errors.Join(err, f.Close())
}

// pieces writes a file that is there, one piece after another.
type pieces struct {
	u    *unpacker
	name string
}

// Write implements io.Writer.
func (p *pieces) Write(piece []byte) (int, error) {
	if err := p.u.write(p.name, 0, piece); err != nil {
		return 0, err
	}
	return len(piece), nil
}
