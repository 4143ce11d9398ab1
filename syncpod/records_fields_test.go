package syncpod

import (
	"reflect"
	"testing"
	"time"

	"github.com/podsync/podsync/syncpod/internal/memory"
)

// No field of a Record is lost on its way to package memory and back.
func TestRecordKeepsEachField(t *testing.T) {
	var full Record
	value := reflect.ValueOf(&full).Elem()
	for i := range value.NumField() {
		switch f := value.Field(i); f.Kind() {
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
			f.SetMapIndex(reflect.New(f.Type().Key()).Elem(), reflect.New(f.Type().Elem()).Elem())
		default:
			f.Set(reflect.ValueOf(time.Unix(1, 0)))
		}
	}
	if got := recordOf(full.toMemory()); !reflect.DeepEqual(got, full) {
		t.Errorf("%+v, want %+v", got, full)
	}
	if here, there := value.NumField(), reflect.TypeFor[memory.Record]().NumField(); here != there {
		t.Errorf("%d fields, and %d in package memory", here, there)
	}
}
