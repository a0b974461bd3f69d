package lru_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/lru"
)

func TestWhatWasUsedLongestAgoIsDroppedFirst(t *testing.T) {
	c := lru.New[string, int](10)
	c.Put("a", 1, 4)
	c.Put("b", 2, 4)
	c.Get("a")
	c.Put("c", 3, 4)
	for key, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, ok := c.Get(key); ok != want {
			t.Errorf("%s is kept: %v, want %v", key, ok, want)
		}
	}
}

func TestACacheHoldsNoMoreThanItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := lru.New[int, int](100)
		for range rapid.IntRange(1, 200).Draw(t, "operations") {
			key := rapid.IntRange(0, 20).Draw(t, "key")
			bytes := rapid.IntRange(0, 120).Draw(t, "bytes")
			c.Put(key, bytes, bytes)
			got, ok := c.Get(key)
			if fits := bytes <= 100; ok != fits || fits && got != bytes {
				t.Fatalf("after Put(%d, %d bytes): %d, %v", key, bytes, got, ok)
			}
			if used := c.Bytes(); used < 0 || used > 100 {
				t.Fatalf("holds %d bytes of 100", used)
			}
		}
	})
}
