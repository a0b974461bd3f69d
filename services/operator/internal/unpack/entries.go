package unpack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
)

// The bounds of what an archive unpacks to.
const (
	maxRatio  = 250       // unpacked bytes for each packed one,
	free      = 64 << 20  // of those beyond these
	maxWindow = 128 << 20 // bytes that a decompressor may keep
)

// Magic is the start of compressed files, by the name of the compression.
var Magic = map[string][]byte{
	"gzip": {0x1f, 0x8b}, "bzip2": []byte("BZh"), "xz": {0xfd, '7', 'z', 'X', 'Z', 0}, "zstd": {0x28, 0xb5, 0x2f, 0xfd},
}

// entry is one entry of an archive.
type entry struct {
	name, link string
	kind       byte // as in tar
	mode, size int64
	owner      string // empty for root
	capable    bool   // has file capabilities
	content    io.Reader
}

// limit returns how many bytes the archive may unpack to.
func (a Archive) limit() int64 { return min(manifest.MaxUnpacked, max(free, a.Size*maxRatio)) }

func (a Archive) tooLarge() error {
	return refuse(code.TooLarge, "%d packed bytes become more than %d", a.Size, a.limit())
}

// each calls do with each entry in order, and reads the archive to its end.
func (a Archive) each(ctx context.Context, do func(entry) error) error {
	plain, end, err := decompress(&Reader{ctx, io.NewSectionReader(a.From, 0, a.Size)})
	if err != nil {
		return err
	}
	defer end()
	// Headers and padding come on top of the files: at most a few blocks for each.
	r := &bounded{&Reader{ctx, plain}, 2*a.limit() + free, a.tooLarge}
	next := tarEntries(r)
	if a.CPIO {
		next = cpioEntries(r)
	}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if e.name = strings.TrimPrefix(e.name, "./"); a.Package {
			e.name, e.link = strings.TrimLeft(e.name, "/"), hardTarget(e)
		}
		if e.kind == tar.TypeLink {
			e.link = strings.TrimPrefix(e.link, "./")
		}
		if e.kind == tar.TypeXGlobalHeader || e.kind == tar.TypeDir && path.Clean(e.name) == "." {
			continue
		}
		if err := do(e); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, r) // checksums stand at the end
	return err
}

// hardTarget returns the target of a link of a package, relative to its top for a hard link.
func hardTarget(e entry) string {
	if e.kind == tar.TypeLink {
		return strings.TrimLeft(strings.TrimPrefix(e.link, "./"), "/")
	}
	return e.link
}

// decompress returns the plain bytes of a file, and a function that releases the decompressor.
func decompress(r io.Reader) (plain io.Reader, end func(), err error) {
	const head = 64
	b, end := bufio.NewReaderSize(r, 64<<10), func() {}
	first, err := b.Peek(head)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, end, err
	}
	is := func(name string) bool { return bytes.HasPrefix(first, Magic[name]) }
	switch {
	case is("gzip"):
		plain, err = gzip.NewReader(b)
	case is("bzip2"):
		plain = bzip2.NewReader(b)
	case is("xz"):
		if err := checkDictionary(first); err != nil {
			return nil, end, err
		}
		plain, err = xz.NewReader(b)
	case is("zstd"):
		var z *zstd.Decoder
		z, err = zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			return z, z.Close, nil
		}
	default:
		plain = b
	}
	return plain, end, err
}

// checkDictionary refuses an xz file whose first block has too large a dictionary. The block's header is behind the 12
// bytes of the stream's: its size, flags, two optional numbers, and filters as id, size and properties.
func checkDictionary(first []byte) error {
	const header, lzma2 = 12, 0x21
	for n := header + 2; n+2 < len(first); n++ {
		if first[n] != lzma2 || first[n+1] != 1 {
			continue
		}
		if size, err := lzma.DecodeDictCap(first[n+2]); err == nil && size > maxWindow {
			return refuse(code.TooLarge, "its dictionary has %d bytes, more than %d", size, maxWindow)
		}
		break
	}
	return nil
}

func tarEntries(r io.Reader) func() (entry, error) {
	t := tar.NewReader(r)
	return func() (entry, error) {
		h, err := t.Next()
		if err != nil {
			return entry{}, err
		}
		e := entry{name: h.Name, link: h.Linkname, kind: h.Typeflag, mode: h.Mode, size: h.Size, content: t}
		if h.Typeflag == tar.TypeGNUSparse {
			e.kind = tar.TypeReg
		}
		if h.Uid != 0 || h.Gid != 0 {
			e.owner = h.Uname + ":" + h.Gname
		}
		_, e.capable = h.PAXRecords["SCHILY.xattr.security.capability"]
		return e, nil
	}
}

// cpioEntries returns the entries of a cpio archive. Of several names of one file only the last has the content; the
// others follow it as hard links.
func cpioEntries(r io.Reader) func() (entry, error) {
	c, waiting, ready := cpio.NewReader(r), map[int64][]entry{}, []entry(nil)
	return func() (entry, error) {
		for len(ready) == 0 {
			h, err := c.Next()
			if errors.Is(err, io.EOF) && len(waiting) > 0 {
				for inode, names := range waiting { // names of an empty file
					ready = append(ready, names...)
					delete(waiting, inode)
				}
				break
			}
			if err != nil {
				return entry{}, err
			}
			e := cpioEntry(c, h)
			if e.kind == tar.TypeReg && h.Links > 1 && e.size == 0 {
				waiting[h.Inode] = append(waiting[h.Inode], e)
				continue
			}
			ready = append(ready, e)
			for _, name := range waiting[h.Inode] {
				ready = append(ready, entry{name: name.name, kind: tar.TypeLink, link: e.name})
			}
			delete(waiting, h.Inode)
		}
		e := ready[0]
		ready = ready[1:]
		return e, nil
	}
}

func cpioEntry(c *cpio.Reader, h *cpio.Header) entry {
	e := entry{name: h.Name, link: h.Linkname, mode: int64(h.Mode & 0o7777), size: h.Size, content: c}
	switch h.Mode &^ 0o7777 {
	case cpio.TypeReg:
		e.kind = tar.TypeReg
	case cpio.TypeDir:
		e.kind = tar.TypeDir
	case cpio.TypeSymlink:
		e.kind = tar.TypeSymlink
	default:
		e.kind = tar.TypeChar
	}
	return e
}

// Reader reads until its context is done.
type Reader struct {
	Ctx  context.Context
	From io.Reader
}

// Read implements io.Reader.
func (r *Reader) Read(b []byte) (int, error) {
	if err := r.Ctx.Err(); err != nil {
		return 0, err
	}
	return r.From.Read(b)
}

// bounded reads a number of bytes, and then fails.
type bounded struct {
	from io.Reader
	left int64
	over func() error
}

// Read implements io.Reader.
func (r *bounded) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if r.left -= int64(n); r.left < 0 {
		return 0, r.over()
	}
	return n, err
}
