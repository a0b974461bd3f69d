package image

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// packed is the result of packing a directory.
type packed struct {
	unpacked uint64
	entries  uint32
}

// pack writes everything in root but the recipe to w, as a zstd-compressed tar archive.
// The output depends on names, contents, the executable bit and nothing else.
func pack(root *os.Root, w io.Writer) (packed, error) {
	// One encoder goroutine: with more, the output could depend on the machine.
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return packed{}, err
	}
	p := &packer{root: root, tar: tar.NewWriter(z)}
	// WalkDir goes in the order of names, directories before their contents.
	if err := fs.WalkDir(root.FS(), ".", p.entry); err != nil {
		_ = z.Close()
		return packed{}, err
	}
	if err := p.tar.Close(); err != nil {
		return packed{}, err
	}
	return p.packed, z.Close()
}

type packer struct {
	root *os.Root
	tar  *tar.Writer
	packed
}

func (p *packer) entry(name string, d fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("pack %s: %w", name, err)
	case name == "." || name == RecipeName:
		return nil
	case !utf8.ValidString(name) || strings.ContainsAny(name, "\\\x00"):
		return refuse(code.SpecialFile, "the name %q is not UTF-8 or holds a backslash", name)
	case p.entries == MaxEntries:
		return refuse(code.TooLarge, "the directory has more than %d entries", MaxEntries)
	}
	p.entries++
	switch d.Type() {
	case 0:
		return p.file(name)
	case fs.ModeDir:
		return p.tar.WriteHeader(header(tar.TypeDir, name+"/", 0o755))
	case fs.ModeSymlink:
		return p.symlink(name)
	}
	return refuse(code.SpecialFile, "%s is neither a file, a directory nor a symbolic link (%s)", name, d.Type())
}

func header(kind byte, name string, mode int64) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, ModTime: time.Unix(0, 0)}
}

func (p *packer) file(name string) error {
	f, err := p.root.Open(name)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return refuse(code.Changed, "%s changed while it was packed", name)
	}
	h := header(tar.TypeReg, name, 0o644)
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	h.Size = info.Size()
	p.unpacked += uint64(h.Size)
	if p.unpacked > MaxUnpacked {
		return refuse(code.TooLarge, "the files have more than %d bytes", int64(MaxUnpacked))
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return p.content(f, name, h.Size)
}

// content copies a file that must not change its size meanwhile.
func (p *packer) content(f io.Reader, name string, size int64) error {
	n, err := io.Copy(p.tar, io.LimitReader(f, size))
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if more, _ := f.Read(make([]byte, 1)); n != size || more > 0 {
		return refuse(code.Changed, "%s changed while it was packed", name)
	}
	return nil
}

func (p *packer) symlink(name string) error {
	target, err := p.root.Readlink(name)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if !linkInside(name, target) {
		return refuse(code.Outside,
			"symbolic link %s leads to %q; want a relative path inside the directory, with .. only at its start", name,
			target)
	}
	h := header(tar.TypeSymlink, name, 0o777)
	h.Linkname = target
	return p.tar.WriteHeader(h)
}

// linkInside reports whether a symbolic link at name stays inside wherever it is unpacked.
// ".." is allowed only at the start. After a name it is resolved from the target of that name, which may be
// another link, so the text of the link alone cannot decide.
func linkInside(name, target string) bool {
	if target == "" || path.IsAbs(target) || !utf8.ValidString(target) || strings.ContainsAny(target, "\\\x00") {
		return false
	}
	down := false
	for e := range strings.SplitSeq(target, "/") {
		if e == ".." && down {
			return false
		}
		down = down || (e != ".." && e != "." && e != "")
	}
	to := path.Join(path.Dir(name), target)
	return to != ".." && !strings.HasPrefix(to, "../")
}
