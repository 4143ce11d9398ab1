package source

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/podspec"
)

const (
	// checkpointVersion is the file format's version.
	checkpointVersion = 1
	// keySize is AES-256's key size, in bytes.
	keySize    = 32
	cipherName = "AES-256-GCM"
	// maxMemory is the largest file that is read, in bytes, and maxConfirmation the largest
	// file with a confirmation.
	maxMemory, maxConfirmation = 256 << 20, 4 << 10
)

// checkpointData is the file's content.
type checkpointData struct {
	SavedAt        time.Time            `json:"savedAt"`
	Pods           []*v1.Pod            `json:"pods,omitempty"`
	ConfigMaps     []*v1.ConfigMap      `json:"configMaps,omitempty"`
	Secrets        []*v1.Secret         `json:"secrets,omitempty"`
	Services       []checkpointServices `json:"services,omitempty"`
	RuntimeClasses []checkpointClass    `json:"runtimeClasses,omitempty"`
	Tokens         []checkpointToken    `json:"tokens,omitempty"`
	// MissingConfigMaps and MissingSecrets do not exist: an optional reference to them is known to lead nowhere.
	MissingConfigMaps []types.NamespacedName `json:"missingConfigMaps,omitempty"`
	MissingSecrets    []types.NamespacedName `json:"missingSecrets,omitempty"`
}

// checkpointServices are the Services in a namespace, possibly none.
type checkpointServices struct {
	Namespace string        `json:"namespace"`
	Services  []*v1.Service `json:"services,omitempty"`
}

type checkpointClass struct {
	Name    string `json:"name"`
	Handler string `json:"handler,omitempty"`
}

type checkpointToken struct {
	tokenKey
	Token string `json:"token"`
}

// A checkpointHeader is the file's first line, as JSON. What follows in the file is a checkpointData as JSON,
// or a nonce and that encrypted, with the header as additional data.
type checkpointHeader struct {
	Version int    `json:"version"`
	Source  string `json:"source"`
	// Cipher is how the rest is encrypted, empty if it is not encrypted. Then SHA256 is its sum.
	Cipher string `json:"cipher,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// A checkpointFile is the checkpoint's file. Only one goroutine writes it.
type checkpointFile struct {
	path, source string
	// key encrypts and decrypts. oldKey decrypts files that key cannot decrypt. nil means none.
	key, oldKey []byte
	disk        disk
	// sum is the checksum for the checkpoint that was written last, without SavedAt if write has set it,
	// and savedAt that checkpoint's SavedAt.
	sum     [sha256.Size]byte
	savedAt time.Time
}

// A confirmation records when the source last confirmed a checkpoint's pods.
type confirmation struct {
	// Of is the checkpoint's SavedAt. A confirmation for another version is ignored.
	Of          time.Time `json:"of"`
	ConfirmedAt time.Time `json:"confirmedAt"`
}

// A disk replaces a file in steps. After each one the agent may end.
type disk interface {
	// write replaces a file. The file is on the disk when write returns.
	write(path string, text []byte) error
	rename(from, to string) error
	// sync returns when the names in a directory are on the disk.
	sync(dir string) error
}

// read returns the checkpoint's valid parts.
func (f *checkpointFile) read() (checkpointData, error) {
	text, err := readCheckpoint(f.path, maxMemory)
	if errors.Is(err, fs.ErrNotExist) {
		return checkpointData{}, nil
	}
	var m checkpointData
	if err == nil {
		m, err = f.open(text)
	}
	if err == nil {
		m, err = usable(m)
	}
	if err != nil {
		err = fmt.Errorf("the checkpoint of the source in %s: %w", f.path, err)
	}
	return m, err
}

// confirmationPath returns the file's path with the confirmation.
func (f *checkpointFile) confirmationPath() string { return f.path + ".confirmed" }

// confirmedAt returns when the source last confirmed the pods in the checkpoint that was saved at that
// time. A confirmation that cannot be read does not count.
func (f *checkpointFile) confirmedAt(savedAt time.Time) time.Time {
	text, err := readCheckpoint(f.confirmationPath(), maxConfirmation)
	if err != nil {
		return savedAt
	}
	body, err := f.unseal(text)
	var c confirmation
	if err != nil || json.Unmarshal(body, &c) != nil || !c.Of.Equal(savedAt) || c.ConfirmedAt.Before(savedAt) {
		return savedAt
	}
	return c.ConfirmedAt
}

// confirm records that the source still wanted the last write's pods at that time. It reports whether it has
// written that. Before the first write it does nothing.
func (f *checkpointFile) confirm(at time.Time) (bool, error) {
	if f.savedAt.IsZero() {
		return false, nil
	}
	if err := f.replace(f.confirmationPath(), confirmation{Of: f.savedAt, ConfirmedAt: at}); err != nil {
		return false, fmt.Errorf("confirmation of the checkpoint: %w", err)
	}
	return true, nil
}

func readCheckpoint(path string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return hostfs.Read(root, filepath.Base(path), limit)
}

// usable returns a checkpoint with the pods that can run, with this agent's API defaults, and
// without null values.
func usable(m checkpointData) (checkpointData, error) {
	m.ConfigMaps = slices.DeleteFunc(m.ConfigMaps, func(c *v1.ConfigMap) bool { return c == nil })
	m.Secrets = slices.DeleteFunc(m.Secrets, func(s *v1.Secret) bool { return s == nil })
	for i := range m.Services {
		m.Services[i].Services = slices.DeleteFunc(m.Services[i].Services, func(s *v1.Service) bool { return s == nil })
	}
	var good []*v1.Pod
	var errs []error
	for _, pod := range m.Pods {
		if pod == nil {
			continue
		}
		pod = podspec.Default(pod)
		if err := podspec.ValidateAdmitted(pod); err != nil { // the source has validated it
			errs = append(errs, fmt.Errorf("%s %s: %w", kindPod, nameOf(pod), err))
			continue
		}
		good = append(good, pod)
	}
	m.Pods = good
	return m, errors.Join(errs...)
}

// open parses the file's text.
func (f *checkpointFile) open(text []byte) (m checkpointData, err error) {
	body, err := f.unseal(text)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return checkpointData{}, errors.New("it is not the JSON of a checkpoint") // the original error may contain values
	}
	return m, nil
}

// unseal returns the decrypted contents below a file's header.
func (f *checkpointFile) unseal(text []byte) ([]byte, error) {
	line, body, _ := bytes.Cut(text, []byte("\n"))
	var header checkpointHeader
	if err := json.Unmarshal(line, &header); err != nil || header.Version < 1 {
		return nil, errors.New("its first line is none that is written here")
	}
	switch {
	case header.Version > checkpointVersion:
		return nil, fmt.Errorf("it has version %d, and this agent reads %d", header.Version, checkpointVersion)
	case header.Source != f.source:
		return nil, fmt.Errorf("it is of source %q, not of %q", header.Source, f.source)
	case header.Cipher == "" && f.key != nil:
		return nil, errors.New("it is not encrypted though there is a key: anybody may have written it")
	case header.Cipher != "" && f.key == nil:
		return nil, errors.New("it is encrypted, and there is no key (source.CheckpointConfig.Key)")
	case header.Cipher != "" && header.Cipher != cipherName:
		return nil, fmt.Errorf("it is encrypted with %q, and this agent knows %s", header.Cipher, cipherName)
	case header.Cipher == "" && header.SHA256 != sumOf(body):
		return nil, errors.New("it was changed or cut: its sum is another")
	}
	if header.Cipher != "" {
		return f.decrypt(line, body)
	}
	return body, nil
}

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func (f *checkpointFile) decrypt(header, body []byte) ([]byte, error) {
	for _, key := range [][]byte{f.key, f.oldKey} {
		if key == nil {
			continue
		}
		gcm, err := gcmOf(key)
		if err != nil {
			return nil, err
		}
		if len(body) < gcm.NonceSize() {
			return nil, errors.New("it was cut")
		}
		if plain, err := gcm.Open(nil, body[:gcm.NonceSize()], body[gcm.NonceSize():], header); err == nil {
			return plain, nil
		}
	}
	return nil, errors.New("it cannot be decrypted: the key is another one, or it was changed or cut")
}

func gcmOf(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// write writes a checkpoint, unless the file has it already. If SavedAt is zero, write sets it to the current time.
func (f *checkpointFile) write(m checkpointData) error {
	m = trimmed(m)
	text, err := json.Marshal(m)
	if err == nil {
		if sum := sha256.Sum256(text); sum != f.sum {
			if m.SavedAt.IsZero() {
				m.SavedAt = time.Now()
			}
			err = f.replace(f.path, m)
			if err == nil {
				f.sum, f.savedAt = sum, m.SavedAt
			}
		}
	}
	if err != nil {
		return fmt.Errorf("the checkpoint of the source cannot be written: %w", err)
	}
	return nil
}

// replace replaces a file. A temporary file that a killed agent has left is overwritten.
func (f *checkpointFile) replace(path string, content any) error {
	text, err := f.seal(content)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary := hostfs.Temporary(path)
	err = f.disk.write(temporary, text)
	if err == nil {
		err = f.disk.rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(temporary))
	}
	return f.disk.sync(dir)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// seal returns a file's text.
func (f *checkpointFile) seal(content any) ([]byte, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	header := checkpointHeader{Version: checkpointVersion, Source: f.source}
	if f.key == nil {
		header.SHA256 = sumOf(body)
	} else {
		header.Cipher = cipherName
	}
	line, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	if f.key != nil {
		if body, err = f.encrypt(line, body); err != nil {
			return nil, err
		}
	}
	return slices.Concat(line, []byte("\n"), body), nil
}

func (f *checkpointFile) encrypt(header, body []byte) ([]byte, error) {
	gcm, err := gcmOf(f.key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, gcm.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return gcm.Seal(nonce, nonce, body, header), nil
}

// trimmed returns the checkpoint without parts that change with each status report.
func trimmed(m checkpointData) checkpointData {
	m.Pods = slices.Clone(m.Pods)
	for i, pod := range m.Pods {
		m.Pods[i] = trimmedPod(pod)
	}
	m.ConfigMaps = slices.Clone(m.ConfigMaps)
	for i, c := range m.ConfigMaps {
		copied := *c
		trimMeta(&copied.ObjectMeta)
		m.ConfigMaps[i] = &copied
	}
	m.Secrets = slices.Clone(m.Secrets)
	for i, s := range m.Secrets {
		copied := *s
		trimMeta(&copied.ObjectMeta)
		m.Secrets[i] = &copied
	}
	m.Services = slices.Clone(m.Services)
	for i := range m.Services {
		m.Services[i].Services = trimmedServices(m.Services[i].Services)
	}
	return m
}

// trimmedServices returns Services with the fields that pods get variables for.
func trimmedServices(all []*v1.Service) (list []*v1.Service) {
	for _, s := range all {
		list = append(list, &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
			Spec:       v1.ServiceSpec{Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, Ports: s.Spec.Ports},
		})
	}
	return list
}

func trimMeta(meta *metav1.ObjectMeta) { meta.ManagedFields, meta.ResourceVersion = nil, "" }

// trimmedPod returns a pod without the status that its node has reported, unless the pod has
// finished.
func trimmedPod(pod *v1.Pod) *v1.Pod {
	copied := *pod // shares the rest
	trimMeta(&copied.ObjectMeta)
	status := v1.PodStatus{ResourceClaimStatuses: pod.Status.ResourceClaimStatuses}
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case v1.PodReady, v1.ContainersReady, v1.PodInitialized, v1.PodReadyToStartContainers:
		default:
			c.LastProbeTime = metav1.Time{}
			status.Conditions = append(status.Conditions, c)
		}
	}
	if !runtime.IsTerminal(pod.Status.Phase) {
		copied.Status = status
	}
	return &copied
}

// osDisk is the system's disk.
type osDisk struct{}

func (osDisk) write(path string, text []byte) error { return hostfs.Write(path, text, true) }

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) sync(dir string) error { return hostfs.SyncDir(dir) }
