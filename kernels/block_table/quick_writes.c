/* Appends and overwrites of valid ids, in C: a step of a decode is mostly its host's Python.

   What is invalid, or of another type than expected, is left alone and answered with None: the
   general way in Python then words the error. Nothing is written before all is checked, and no
   code of Python runs in between. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define PLANES 4 /* group, request, start, offset: as in StagedWrites */
#define NUM_VIEWS 3
#define MAX_GROUPS 64

/* What the host has: see HostTables. Row [group, request] is group * max_requests + request. */
typedef struct {
    int64_t max_requests, num_blocks, groups;
    const int64_t *widths, *bases, *strides; /* of each group */
    int64_t *counts;                         /* manager blocks of each row */
    int32_t *ids;                            /* all rows */
    Py_buffer views[NUM_VIEWS];
    int opened;
} Tables;

/* One call, as flat arrays: lengths [requests, groups]. */
typedef struct {
    Py_ssize_t requests, ids, writes;
    int64_t *rows, *lengths;
    char *seen;
    int overwrite;
    PyObject *packed, *written, *ends, *widest;
} Call;

static void close_tables(Tables *tables) {
    while (tables->opened) PyBuffer_Release(&tables->views[--tables->opened]);
}

/* layout: int64, max_requests, num_blocks, groups, then width, base, stride of every group. */
static int open_tables(Tables *tables, PyObject *layout, PyObject *counts, PyObject *ids) {
    PyObject *given[NUM_VIEWS] = {layout, counts, ids};
    tables->opened = 0;
    for (int i = 0; i < NUM_VIEWS; i++) {
        int flags = i ? PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS : PyBUF_C_CONTIGUOUS;
        if (PyObject_GetBuffer(given[i], &tables->views[i], flags)) return -1;
        tables->opened++;
    }
    const int64_t *numbers = tables->views[0].buf;
    tables->max_requests = numbers[0], tables->num_blocks = numbers[1];
    tables->groups = numbers[2];
    tables->widths = numbers + 3, tables->bases = tables->widths + tables->groups;
    tables->strides = tables->bases + tables->groups;
    tables->counts = tables->views[1].buf, tables->ids = tables->views[2].buf;
    return 0;
}

static void close_call(Call *call) {
    PyMem_Free(call->rows);
    PyMem_Free(call->lengths);
    PyMem_Free(call->seen);
    Py_CLEAR(call->packed);
    Py_CLEAR(call->written);
    Py_CLEAR(call->ends);
    Py_CLEAR(call->widest);
}

static int open_call(Call *call, const Tables *tables, Py_ssize_t requests, int overwrite) {
    memset(call, 0, sizeof *call);
    call->requests = requests, call->overwrite = overwrite;
    call->rows = PyMem_New(int64_t, requests);
    call->lengths = PyMem_New(int64_t, requests * tables->groups);
    call->seen = PyMem_Calloc(tables->max_requests, 1);
    return call->rows && call->lengths && call->seen;
}

static int is_list(PyObject *value) { return PyList_CheckExact(value) || PyTuple_CheckExact(value); }

/* A whole number of type int itself (a bool is another) in 0..end-1; -1 for anything else. */
static int64_t number_below(PyObject *value, int64_t end) {
    int overflow;
    if (!PyLong_CheckExact(value)) return -1;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow || number < 0 || number >= end ? -1 : number;
}

/* Check rows and lengths, and make room for what is sent. 0: invalid, or no memory. */
static int checked(Call *call, const Tables *tables) {
    Py_ssize_t ids = 0;
    if (tables->groups > MAX_GROUPS) return 0;
    for (Py_ssize_t i = 0; i < call->requests; i++) {
        int64_t request = call->rows[i];
        if (request < 0 || request >= tables->max_requests || call->seen[request]) return 0;
        call->seen[request] = 1;
        for (int64_t g = 0; g < tables->groups; g++) {
            int64_t length = call->lengths[i * tables->groups + g];
            int64_t row = g * tables->max_requests + request;
            int64_t start = call->overwrite ? 0 : tables->counts[row];
            if (length < 0 || length > tables->widths[g] - start) return 0;
            if (!length && call->overwrite) return 0;
            ids += length, call->writes += length > 0;
        }
    }
    if (!call->writes || ids != call->ids) return 0;
    call->packed = PyBytes_FromStringAndSize(
        NULL, (Py_ssize_t)sizeof(int32_t) * (PLANES * call->writes + ids));
    call->written = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizeof(int64_t) * call->writes);
    call->ends = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sizeof(int64_t) * call->writes);
    call->widest = PyTuple_New(tables->groups);
    return call->packed && call->written && call->ends && call->widest;
}

static int32_t *sent_ids(const Call *call) {
    return (int32_t *)PyBytes_AS_STRING(call->packed) + PLANES * call->writes;
}

/* Write rows and counts, and return (packed, rows, ends, widest). */
static PyObject *written(Call *call, Tables *tables) {
    int32_t *group = (int32_t *)PyBytes_AS_STRING(call->packed), *request = group + call->writes;
    int32_t *start = request + call->writes, *offset = start + call->writes;
    int64_t *rows = (int64_t *)PyBytes_AS_STRING(call->written);
    int64_t *ends = (int64_t *)PyBytes_AS_STRING(call->ends);
    const int32_t *sent = sent_ids(call);
    int64_t widest[MAX_GROUPS] = {0}, first = 0;
    Py_ssize_t w = 0;
    for (Py_ssize_t i = 0; i < call->requests; i++) {
        for (int64_t g = 0; g < tables->groups; g++) {
            int64_t length = call->lengths[i * tables->groups + g];
            if (!length) continue;
            int64_t row = g * tables->max_requests + call->rows[i];
            int64_t begin = call->overwrite ? 0 : tables->counts[row], end = begin + length;
            int64_t place = tables->bases[g] + call->rows[i] * tables->strides[g] + begin;
            memcpy(tables->ids + place, sent + first, length * sizeof(int32_t));
            tables->counts[row] = end;
            group[w] = (int32_t)g, request[w] = (int32_t)call->rows[i];
            start[w] = (int32_t)begin, offset[w] = (int32_t)first;
            rows[w] = row, ends[w] = end;
            if (end > widest[g]) widest[g] = end;
            first += length, w++;
        }
    }
    for (int64_t g = 0; g < tables->groups; g++) {
        PyObject *number = PyLong_FromLongLong(widest[g]);
        if (!number) return NULL;
        PyTuple_SET_ITEM(call->widest, g, number);
    }
    return PyTuple_Pack(4, call->packed, call->written, call->ends, call->widest);
}

/* An error of Python's own is passed on; everything else is None. */
static PyObject *ended(PyObject *result, Call *call, Tables *tables) {
    close_call(call);
    close_tables(tables);
    if (!result && !PyErr_Occurred()) Py_RETURN_NONE;
    return result;
}

/* write(layout, counts, ids, requests, block_ids, overwrite): block_ids[request][group]. */
static PyObject *quick_write(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Tables tables;
    Call call = {0};
    if (count != 6 || !is_list(args[3]) || !is_list(args[4])) Py_RETURN_NONE;
    PyObject *requests = args[3], *block_ids = args[4];
    Py_ssize_t size = PySequence_Fast_GET_SIZE(requests);
    if (size != PySequence_Fast_GET_SIZE(block_ids)) Py_RETURN_NONE;
    if (open_tables(&tables, args[0], args[1], args[2])) return ended(NULL, &call, &tables);
    if (!open_call(&call, &tables, size, args[5] == Py_True)) return ended(NULL, &call, &tables);
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *lists = PySequence_Fast_GET_ITEM(block_ids, i);
        if (!is_list(lists) || PySequence_Fast_GET_SIZE(lists) != tables.groups)
            return ended(NULL, &call, &tables);
        call.rows[i] = number_below(PySequence_Fast_GET_ITEM(requests, i), tables.max_requests);
        for (int64_t g = 0; g < tables.groups; g++) {
            PyObject *part = PySequence_Fast_GET_ITEM(lists, g);
            if (!is_list(part)) return ended(NULL, &call, &tables);
            call.lengths[i * tables.groups + g] = PySequence_Fast_GET_SIZE(part);
            call.ids += PySequence_Fast_GET_SIZE(part);
        }
    }
    if (!checked(&call, &tables)) return ended(NULL, &call, &tables);
    int32_t *sent = sent_ids(&call);
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *lists = PySequence_Fast_GET_ITEM(block_ids, i);
        for (int64_t g = 0; g < tables.groups; g++) {
            PyObject *part = PySequence_Fast_GET_ITEM(lists, g);
            Py_ssize_t length = PySequence_Fast_GET_SIZE(part);
            for (Py_ssize_t k = 0; k < length; k++) {
                int64_t id = number_below(PySequence_Fast_GET_ITEM(part, k), tables.num_blocks);
                if (id < 0) return ended(NULL, &call, &tables);
                *sent++ = (int32_t)id;
            }
        }
    }
    return ended(written(&call, &tables), &call, &tables);
}

/* A contiguous array of int64 with so many dimensions, open in view. */
static int is_array(PyObject *value, Py_buffer *view, int dimensions) {
    if (PyObject_GetBuffer(value, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) {
        PyErr_Clear();
        return 0;
    }
    const char *format = view->format ? view->format : "B";
    int fits = view->ndim == dimensions && view->itemsize == sizeof(int64_t) && !format[1] &&
               (format[0] == 'l' || format[0] == 'q');
    if (!fits) PyBuffer_Release(view);
    return fits;
}

/* write_flat(layout, counts, ids, requests, lengths, block_ids, overwrite): arrays of int64. */
static PyObject *quick_write_flat(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Tables tables = {0};
    Call call = {0};
    Py_buffer views[NUM_VIEWS];
    int opened = 0;
    PyObject *result = NULL;
    if (count != 7) Py_RETURN_NONE;
    while (opened < NUM_VIEWS && is_array(args[3 + opened], &views[opened], opened == 1 ? 2 : 1))
        opened++;
    if (opened == NUM_VIEWS && !open_tables(&tables, args[0], args[1], args[2])) {
        Py_ssize_t requests = views[0].shape[0];
        int fits = views[1].shape[0] == requests && views[1].shape[1] == tables.groups;
        if (fits && open_call(&call, &tables, requests, args[6] == Py_True)) {
            const int64_t *ids = views[2].buf;
            call.ids = views[2].shape[0];
            memcpy(call.rows, views[0].buf, views[0].len);
            memcpy(call.lengths, views[1].buf, views[1].len);
            int valid = checked(&call, &tables);
            int32_t *sent = valid ? sent_ids(&call) : NULL;
            for (Py_ssize_t k = 0; valid && k < call.ids; k++) {
                valid = ids[k] >= 0 && ids[k] < tables.num_blocks;
                sent[k] = (int32_t)ids[k];
            }
            if (valid) result = written(&call, &tables);
        }
    }
    while (opened) PyBuffer_Release(&views[--opened]);
    return ended(result, &call, &tables);
}

static PyMethodDef methods[] = {
    {"write", (PyCFunction)(void (*)(void))quick_write, METH_FASTCALL, NULL},
    {"write_flat", (PyCFunction)(void (*)(void))quick_write_flat, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "quick_writes", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit_quick_writes(void) { return PyModule_Create(&module); }
