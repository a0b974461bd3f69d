// Package boltfile checks the structure of a bbolt file before bbolt maps it into memory.
// On a damaged file bbolt panics in goroutines of its own or reads beyond the end of the
// file, and either ends the process.
//
// Guarantees:
//
//  1. Check reads the file with ordinary reads, never panics, and reads no page twice.
//  2. What passes has every page that bbolt will follow: with its own number, of the right
//     type, within the file, used once, and with its keys in order.
//
// Values are not looked at: they are the concern of the journal.
package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

const (
	magic   = 0xED0CDAED
	version = 2

	pageHeader = 16
	element    = 16 // of a branch and of a leaf
	bucketHead = 16
	metaSize   = 64
	metaSummed = metaSize - 8

	flagBranch = 1
	flagLeaf   = 2
	flagMeta   = 4
	flagBucket = 1 // of a leaf's element

	smallestPage = 1 << 10
	largestPage  = 1 << 16
	maxPageBytes = 64 << 20 // of one page with those that it overflows into
	maxDepth     = 64
)

// ErrDamaged is what every error of Check wraps.
var ErrDamaged = errors.New("the file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Check reports what is wrong with a bbolt file of size bytes, or nil.
func Check(file io.ReaderAt, size int64) error {
	m, err := newest(file, size)
	if err != nil {
		return err
	}
	c := &checker{file: file, size: size, meta: m, seen: map[uint64]bool{0: true, 1: true}}
	return c.tree(m.root, nil, nil, 0)
}

// meta is one of the two pages from which everything is found.
type meta struct {
	pageSize        int64
	root, high, txn uint64
}

// newest returns the meta page that bbolt will use. One of the two may be damaged, as a
// commit that was cut off leaves it.
func newest(file io.ReaderAt, size int64) (meta, error) {
	first, err := readMeta(file, size, 0)
	at := first.pageSize
	if err != nil {
		at = 0
		for guess := int64(smallestPage); guess <= largestPage; guess *= 2 {
			if m, e := readMeta(file, size, guess); e == nil && m.pageSize == guess {
				at = guess
				break
			}
		}
		if at == 0 {
			return meta{}, err
		}
	}
	second, err2 := readMeta(file, size, at)
	switch {
	case err2 == nil && second.pageSize != at:
		return meta{}, damaged("its two meta pages differ in the size of a page")
	case err != nil || err2 == nil && second.txn > first.txn:
		return second, err2
	}
	return first, nil
}

func readMeta(file io.ReaderAt, size, at int64) (meta, error) {
	if at+pageHeader+metaSize > size {
		return meta{}, damaged("it ends before its meta page at %d", at)
	}
	b := make([]byte, pageHeader+metaSize)
	if _, err := file.ReadAt(b, at); err != nil {
		return meta{}, damaged("its meta page at %d cannot be read: %v", at, err)
	}
	flags := binary.NativeEndian.Uint16(b[8:])
	b = b[pageHeader:]
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSummed])
	word := func(n int) uint64 { return binary.NativeEndian.Uint64(b[n:]) }
	m := meta{pageSize: int64(binary.NativeEndian.Uint32(b[8:])), root: word(16), high: word(40), txn: word(48)}
	switch {
	case flags != flagMeta || binary.NativeEndian.Uint32(b) != magic || binary.NativeEndian.Uint32(b[4:]) != version:
		return m, damaged("what is at %d is no meta page", at)
	case h.Sum64() != word(metaSummed):
		return m, damaged("the checksum of its meta page at %d is wrong", at)
	case m.pageSize < smallestPage || m.pageSize > largestPage:
		return m, damaged("its pages have %d bytes", m.pageSize)
	}
	return m, nil
}

// checker follows every page from the root.
type checker struct {
	file io.ReaderAt
	size int64
	meta meta
	seen map[uint64]bool
}

// page reads a page with those that it overflows into.
func (c *checker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.meta.high {
		return nil, damaged("page %d is beyond the last one", id)
	}
	head := make([]byte, pageHeader)
	if err := c.read(head, id); err != nil {
		return nil, err
	}
	if own := binary.NativeEndian.Uint64(head); own != id {
		return nil, damaged("page %d says that it is page %d", id, own)
	}
	more := uint64(binary.NativeEndian.Uint32(head[12:]))
	if id+more >= c.meta.high || (more+1)*uint64(c.meta.pageSize) > maxPageBytes {
		return nil, damaged("page %d goes on beyond the last one", id)
	}
	for n := id; n <= id+more; n++ {
		if c.seen[n] {
			return nil, damaged("page %d is used twice", n)
		}
		c.seen[n] = true
	}
	all := make([]byte, (more+1)*uint64(c.meta.pageSize))
	return all, c.read(all, id)
}

func (c *checker) read(b []byte, id uint64) error {
	at := int64(id) * c.meta.pageSize
	if at+int64(len(b)) > c.size {
		return damaged("it ends before the end of page %d", id)
	}
	if _, err := c.file.ReadAt(b, at); err != nil {
		return damaged("page %d cannot be read: %v", id, err)
	}
	return nil
}

// tree checks a page and what is below it. Its keys are from least on, and below most.
func (c *checker) tree(id uint64, least, most []byte, depth int) error {
	page, err := c.page(id)
	if err != nil {
		return err
	}
	return c.elements(page, least, most, depth)
}

// elements checks the elements of a page, which may be within a bucket's value.
func (c *checker) elements(page, least, most []byte, depth int) error {
	keys, values, err := entries(page, depth)
	if err != nil {
		return err
	}
	if !ordered(keys, least, most) {
		return damaged("the keys of a page are not in order")
	}
	for n := range keys {
		high := most
		if n+1 < len(keys) {
			high = keys[n+1]
		}
		if err := c.below(page, pageHeader+n*element, keys[n], high, values[n], depth); err != nil {
			return err
		}
	}
	return nil
}

// entries returns the keys of a page's elements, and the values of a leaf's.
func entries(page []byte, depth int) (keys, values [][]byte, err error) {
	flags, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	switch {
	case depth > maxDepth:
		return nil, nil, damaged("its pages are more than %d deep", maxDepth)
	case flags != flagBranch && flags != flagLeaf:
		return nil, nil, damaged("a page has the unknown type %#x", flags)
	case pageHeader+count*element > len(page):
		return nil, nil, damaged("a page has %d elements, which is too many", count)
	case flags == flagBranch && count == 0:
		return nil, nil, damaged("a page leads nowhere")
	}
	keys, values = make([][]byte, count), make([][]byte, count)
	for n := range count {
		if keys[n], values[n], err = entry(page, pageHeader+n*element, flags); err != nil {
			return nil, nil, err
		}
	}
	return keys, values, nil
}

// ordered reports whether keys increase strictly, from least on and below most; a nil most is no bound.
func ordered(keys [][]byte, least, most []byte) bool {
	if len(keys) == 0 {
		return true
	}
	increase := func(a, b []byte) bool { return bytes.Compare(a, b) < 0 }
	for n := 1; n < len(keys); n++ {
		if !increase(keys[n-1], keys[n]) {
			return false
		}
	}
	return !increase(keys[0], least) && (most == nil || increase(keys[len(keys)-1], most))
}

// entry returns the key of an element, and the value of a leaf's.
func entry(page []byte, at int, flags uint16) (key, value []byte, err error) {
	word := func(n int) uint64 { return uint64(binary.NativeEndian.Uint32(page[at+n:])) }
	pos, keySize, valueSize := word(0), word(4), uint64(0)
	if flags == flagLeaf {
		pos, keySize, valueSize = word(4), word(8), word(12)
	}
	start := uint64(at) + pos
	if keySize == 0 || start+keySize+valueSize > uint64(len(page)) {
		return nil, nil, damaged("a key or a value goes on beyond its page")
	}
	return page[start : start+keySize], page[start+keySize : start+keySize+valueSize], nil
}

// below checks what the element of a page leads to, whose keys are from least on and below most.
func (c *checker) below(page []byte, at int, least, most, value []byte, depth int) error {
	if binary.NativeEndian.Uint16(page[8:]) == flagBranch {
		return c.tree(binary.NativeEndian.Uint64(page[at+8:]), least, most, depth+1)
	}
	if binary.NativeEndian.Uint32(page[at:])&flagBucket == 0 {
		return nil
	}
	if len(value) < bucketHead {
		return damaged("a bucket has %d bytes", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, nil, nil, depth+1)
	}
	if len(value) < bucketHead+pageHeader {
		return damaged("a bucket within a page has %d bytes", len(value))
	}
	return c.elements(value[bucketHead:], nil, nil, depth+1)
}
