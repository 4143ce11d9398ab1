package filetree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

const (
	// maxOpen limits the directories that are open at a time.
	maxOpen = 32
	// batch is the number of bytes in a directory that are read at a time.
	batch = 16 << 10
	// tick is the resolution of the clock that stamps files: a tick of the kernel.
	tick = 10 * time.Millisecond

	openDir = syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
)

// Walk calls visit for the directory dir and for each entry below it, a directory before its
// contents. It skips entries that disappear during the walk, and other mounts. If dir does not
// exist, the error wraps fs.ErrNotExist; if it is a link, Walk returns an error.
//
// An error of ctx or of visit ends the walk immediately. Any other error, for example of a
// directory that is unreadable or is moved during the walk, does not: Walk visits everything else
// first. So after an error, visit has seen only a part of the tree.
func Walk(ctx context.Context, dir string, visit func(Entry) error) error {
	if err := WalkUnchanged(ctx, dir, visit); !errors.Is(err, ErrChanged) {
		return err
	}
	return nil
}

// WalkUnchanged is [Walk], but returns [ErrChanged] if directories changed and there is no other error.
func WalkUnchanged(ctx context.Context, dir string, visit func(Entry) error) error {
	fd, err := ignoringEINTR(func() (int, error) { return syscall.Open(dir, openDir, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	w := &walker{ctx: ctx, visit: visit, began: time.Now().Add(-tick)}
	defer w.close()
	return w.run(fd)
}

// A walker is a walk in progress. levels are the directories from the root to the one being read.
// Only the root and the deepest ones are open; the others are opened again, through the entry ".."
// of the level below, when the walk returns to them.
type walker struct {
	ctx    context.Context
	visit  func(Entry) error
	levels []level
	// open counts the levels that are open.
	open int
	// spare is a closed level's buffer, for the next level.
	spare []byte
	// mount is the root's mount.
	mount string
	// first is the first error that did not end the walk.
	first error
	// began is the walk's start by the clock that stamps files; changed means that a directory has
	// changed since.
	began   time.Time
	changed bool
}

// A level is a directory that is being read.
type level struct {
	fd     int // closed if negative
	device uint64
	inode  uint64
	// next is the position in the directory after the entry that was read last.
	next int64
	// buffer holds entries that were read and not visited yet.
	buffer []byte
	space  []byte
}

const closed = -1

func (w *walker) run(root int) error {
	if err := w.enter(root, "."); err != nil {
		return err
	}
	for len(w.levels) > 0 {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		entry, err := w.read(w.top())
		if err != nil {
			w.note(err)
		}
		if err != nil || entry == nil {
			w.notice()
			w.leave()
			continue
		}
		if err := w.one(entry.name); err != nil {
			return err
		}
	}
	if w.first == nil && w.changed {
		return ErrChanged
	}
	return w.first
}

// notice records whether the deepest directory, which has been read, has changed since the walk's
// start. A rename that hides a file from the walk changes the directory that the file leaves, which
// the walk reads later.
func (w *walker) notice() {
	var stat syscall.Stat_t
	if w.changed || syscall.Fstat(w.top().fd, &stat) != nil {
		return
	}
	seconds, nanos := stat.Ctim.Unix()
	w.changed = !time.Unix(seconds, nanos).Before(w.began)
}

func (w *walker) top() *level { return &w.levels[len(w.levels)-1] }

// one visits an entry of the deepest level, and enters it if it is a directory.
func (w *walker) one(name string) error {
	parent, device := w.top().fd, w.top().device
	var stat syscall.Stat_t
	_, err := ignoringEINTR(func() (int, error) { return 0, syscall.Lstat(through(parent, name), &stat) })
	if err != nil {
		w.note(err)
		return nil
	}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		if uint64(stat.Dev) != device && !w.onMount(parent, name) {
			return nil
		}
		return w.visit(w.entry(name, &stat))
	}
	fd, err := ignoringEINTR(func() (int, error) { return syscall.Openat(parent, name, openDir, 0) })
	if err != nil {
		if w.note(err) {
			return w.visit(w.entry(name, &stat))
		}
		return nil
	}
	return w.enter(fd, name)
}

// onMount reports whether an entry is on the root's mount. The device does not decide: the
// files of an overlay may have other devices than its directories.
func (w *walker) onMount(parent int, name string) bool {
	const path = 0x200000 // O_PATH: nothing is opened
	fd, err := ignoringEINTR(func() (int, error) {
		return syscall.Openat(parent, name, path|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return w.note(err)
	}
	mount, err := mounts.Of(fd)
	if err := errors.Join(err, syscall.Close(fd)); err != nil {
		w.note(err)
	}
	return mount == w.mount
}

// enter visits a directory and makes it the deepest level, unless it is on another mount. It
// takes over the descriptor.
func (w *walker) enter(fd int, name string) error {
	var stat syscall.Stat_t
	mount := ""
	err := syscall.Fstat(fd, &stat)
	if err == nil {
		mount, err = mounts.Of(fd)
	}
	if err != nil { // the directory is open, so the cause is not its disappearance
		return errors.Join(err, syscall.Close(fd))
	}
	if len(w.levels) == 0 {
		w.mount = mount
	}
	if mount != w.mount {
		return syscall.Close(fd)
	}
	if err := w.visit(w.entry(name, &stat)); err != nil {
		return errors.Join(err, syscall.Close(fd))
	}
	if len(w.levels) >= maxDepth {
		w.note(fmt.Errorf("the tree has more than %d levels", maxDepth))
		return syscall.Close(fd)
	}
	w.levels = append(w.levels, level{fd: fd, device: uint64(stat.Dev), inode: stat.Ino})
	w.open++
	w.closeOne()
	return nil
}

// closeOne closes the open level next to the root if too many are open.
func (w *walker) closeOne() {
	if w.open <= maxOpen {
		return
	}
	w.closeLevel(&w.levels[len(w.levels)-w.open+1])
}

// closeLevel closes a level and drops its buffers.
func (w *walker) closeLevel(l *level) {
	_ = syscall.Close(l.fd) // it was opened for reading
	if l.space != nil {
		w.spare = l.space
	}
	l.fd, l.buffer, l.space = closed, nil, nil
	w.open--
}

// leave returns to the directory above the deepest level.
func (w *walker) leave() {
	last := len(w.levels) - 1
	defer w.closeLevel(&w.levels[last])
	if last > 0 && w.levels[last-1].fd == closed {
		if err := w.levels[last-1].reopen(w.levels[last].fd); err != nil {
			w.note(err)
			w.levels = w.levels[:1] // its levels up to the root are lost
			return
		}
		w.open++
	}
	w.levels = w.levels[:last]
}

// reopen opens a level again from the directory that was entered from it.
func (l *level) reopen(below int) error {
	fd, err := ignoringEINTR(func() (int, error) { return syscall.Openat(below, "..", openDir, 0) })
	if err != nil {
		return err
	}
	var stat syscall.Stat_t
	err = syscall.Fstat(fd, &stat)
	if err == nil && (uint64(stat.Dev) != l.device || stat.Ino != l.inode) {
		err = errors.New("a directory was moved while it was walked")
	}
	if err == nil {
		_, err = syscall.Seek(fd, l.next, 0)
	}
	if err != nil {
		return errors.Join(err, syscall.Close(fd))
	}
	l.fd = fd
	return nil
}

// read returns a level's next entry, nil at the end.
func (w *walker) read(l *level) (*dirent, error) {
	for {
		if len(l.buffer) == 0 {
			if l.space == nil {
				l.space, w.spare = w.spare, nil
			}
			if l.space == nil {
				l.space = make([]byte, batch)
			}
			n, err := ignoringEINTR(func() (int, error) { return syscall.ReadDirent(l.fd, l.space) })
			if err != nil || n <= 0 {
				return nil, err
			}
			l.buffer = l.space[:n]
		}
		entry, rest, err := parse(l.buffer)
		if err != nil {
			return nil, err
		}
		l.buffer, l.next = rest, entry.next
		if entry.name != "." && entry.name != ".." {
			return &entry, nil
		}
	}
}

func (w *walker) entry(name string, stat *syscall.Stat_t) Entry {
	return Entry{
		Name: name, Depth: len(w.levels), IsDir: stat.Mode&syscall.S_IFMT == syscall.S_IFDIR,
		Bytes: uint64(max(stat.Blocks, 0)) * 512, Device: uint64(stat.Dev), Inode: stat.Ino, Links: uint64(stat.Nlink),
	}
}

// note records the first error that is not the consequence of a concurrent change, and reports
// whether err is such an error.
func (w *walker) note(err error) bool {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return false
	}
	if w.first == nil {
		w.first = fmt.Errorf("%d levels below the root: %w", len(w.levels), err)
	}
	return true
}

func (w *walker) close() {
	for i := range w.levels {
		if w.levels[i].fd != closed {
			w.closeLevel(&w.levels[i])
		}
	}
}

// sameMount reports whether a directory below root is on the same mount as root.
func sameMount(root *os.Root, name string) (bool, error) {
	var ids [2]string
	for i, name := range []string{".", name} {
		dir, err := root.Open(name + "/.") // not a FIFO, even if one has replaced it
		if err != nil {
			return false, err
		}
		ids[i], err = mounts.Of(int(dir.Fd()))
		if err := errors.Join(err, dir.Close()); err != nil {
			return false, err
		}
	}
	return ids[0] == ids[1], nil
}

// through returns a path to an entry in an open directory. The kernel resolves it from the
// directory itself, wherever that has been moved.
func through(dir int, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + name
}
